import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { released } from '../../../../support/core/fake-store.js';
import { releasing, startReleaser } from '../../../../support/core/releasing.js';

const REQUEST = { key: 'k', attempt: 'client.1', holdAtLeastMs: 0, leaseMs: 10_000 };

const down = () => new LockStoreError('down', { key: 'k' });

describe('the releaser', () => {
  it('resolves with the answer of the store, and keeps nothing', async () => {
    const { store, releaser, timers } = startReleaser();
    store.onRelease = () => released();
    expect(await releasing(releaser, REQUEST, Infinity, 250)).toEqual({ reply: released(), tries: 1 });
    expect(store.releases[0]).toMatchObject({ request: REQUEST, timeoutMs: 250 });
    expect([releaser.size, timers.size]).toEqual([0, 0]);
  });

  it('retries until it is confirmed, with growing pauses, and reports how often', async () => {
    const { clock, store, releaser, reporter } = startReleaser();
    const done = releasing(releaser, REQUEST, clock.now() + 60_000, 250);
    for (let i = 0; i < 5; i += 1) {
      store.releases[i]!.fail(down());
      await clock.advance(1_000);
      expect(store.releases).toHaveLength(i + 2);
    }
    store.releases[5]!.reply(released());
    expect(await done).toEqual({ reply: released(), tries: 6 });
    expect(reporter.lines).toEqual([]);
  });

  it('stops when the lease is over, and reports it once, without rejecting', async () => {
    const { clock, store, releaser, reporter } = startReleaser();
    store.onRelease = () => {
      throw down();
    };
    const done = releasing(releaser, REQUEST, clock.now() + 2_000, 250);
    await clock.advance(4_000);
    expect(await done).toMatchObject({ reply: undefined });
    expect(reporter.lines).toEqual(['warn The lock "k" could not be released and ends with its lease: down']);
    const asked = store.releases.length;
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(asked);
  });

  it('retries at once when told to, and keeps no timer of the pause', async () => {
    const { clock, store, releaser, timers } = startReleaser();
    const done = releasing(releaser, REQUEST, clock.now() + 60_000, 250);
    store.releases[0]!.fail(down());
    await settled();
    expect([store.releases.length, timers.size]).toEqual([1, 1]);
    releaser.retryNow();
    await settled();
    expect([store.releases.length, timers.size]).toEqual([2, 0]);
    store.releases[1]!.reply(released());
    expect(await done).toEqual({ reply: released(), tries: 2 });
  });

  it('tries once even when the lease has ended already', async () => {
    const { clock, store, releaser } = startReleaser();
    store.onRelease = () => released();
    await releasing(releaser, REQUEST, clock.now() - 1, 250);
    expect(store.releases).toHaveLength(1);
  });

  it('does not retry when that cannot help', async () => {
    const { clock, store, releaser, reporter } = startReleaser();
    const done = releasing(releaser, REQUEST, clock.now() + 60_000, 250);
    store.releases[0]!.fail(new LockStoreError('WRONGPASS', { retryable: false }));
    expect(await done).toEqual({ reply: undefined, tries: 1 });
    expect(reporter.lines).toHaveLength(1);
  });

  it('is idle when all releases are confirmed, including those that came meanwhile', async () => {
    const { store, releaser } = startReleaser();
    void releasing(releaser, REQUEST, Infinity, 250);
    let idle = false;
    const done = releaser.idle().then(() => (idle = true));
    void releasing(releaser, { ...REQUEST, key: 'other' }, Infinity, 250);
    store.releases[0]!.reply(released());
    await settled();
    expect([idle, releaser.size]).toEqual([false, 1]);
    store.releases[1]!.reply(released());
    await done;
    expect(releaser.size).toBe(0);
  });

  it('reports those that were under way at the shutdown when they fail, and leaves no timer', async () => {
    const { clock, store, releaser, reporter, timers } = startReleaser();
    for (let i = 0; i < 12; i += 1) void releasing(releaser, { ...REQUEST, key: `k${i}` }, clock.now() + 60_000, 250);
    releaser.stop();
    for (const release of store.releases) release.fail(down());
    await settled();
    expect([releaser.size, timers.size]).toEqual([0, 0]);
    const last = 'warn Within 10 s, 2 more locks could not be released and end with their leases.';
    expect([reporter.lines.length, reporter.lines.at(-1)]).toEqual([11, last]);
  });
});
