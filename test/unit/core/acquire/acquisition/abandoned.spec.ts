import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { NO_LABEL } from '../../../../../lib/core/lock.events.js';
import { type FireClaim } from '../../../../../lib/core/store/fires.js';
import { settled } from '../../../../../lib/testing/manual-clock.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const CLAIM: FireClaim = {
  job: 'Jobs.run',
  kind: 'at',
  ms: 60_000,
  calledAt: 0,
  rememberMs: 120_000,
  rerunOnLoss: false,
};

/** An acquisition that waits, and was aborted. */
async function abandon(keys: readonly string[], claim?: FireClaim, holdAtLeastMs = 0) {
  const started = startLocker();
  started.store.onAcquire = () => busy();
  const controller = new AbortController();
  const options = lockOptions({ signal: controller.signal, holdAtLeastMs });
  const outcome = outcomeOf(started.locker.acquire(started.locker.request(keys, options, NO_LABEL, claim)));
  await settled();
  return { ...started, outcome, abort: () => controller.abort(new Error('gone')) };
}

describe('an acquisition that nobody waits for any longer', () => {
  it('gives back a fire that it may have claimed', async () => {
    const { store, abort, locker } = await abandon(['k'], CLAIM);
    const { attempt } = store.acquires[0]!.request;
    abort();
    await settled();
    expect(store.releases.map(({ request }) => request)).toEqual([
      { key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 3_000, job: 'Jobs.run', runOutcome: 'void', unanswered: false },
    ]);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('reports no run for any of its keys when it claimed none', async () => {
    const { store, abort } = await abandon(['a', 'b']);
    const { attempt } = store.acquires[0]!.request;
    abort();
    await settled();
    expect(store.releases.map(({ request }) => request)).toStrictEqual(
      ['a', 'b'].map((key) => {
        const released = { job: undefined, runOutcome: undefined, unanswered: false };
        return { key, attempt, holdAtLeastMs: 0, leaseMs: 3_000, ...released };
      }),
    );
  });

  it('is given back for as long as it may have been granted', async () => {
    const { store, abort } = await abandon(['k'], undefined, 60_000);
    abort();
    await settled();
    expect([store.acquires[0]!.request.leaseMs, store.releases[0]!.request.leaseMs]).toEqual([60_000, 60_000]);
  });

  it('gives back the fire of a grant that came during a shutdown', async () => {
    const winners = new Set<string>();
    for (let turns = 0; turns < 12; turns += 1) {
      const { store, clock, locker } = startLocker();
      store.onAcquire = null;
      const acquiring = outcomeOf(locker.acquire(locker.request(['k'], lockOptions(), NO_LABEL, CLAIM)));
      await settled();
      store.acquires[0]!.reply(granted(3_000));
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      const closing = outcomeOf(locker.close(0));
      await clock.advance(1);
      expect(closing).toHaveProperty('value');
      winners.add(acquiring.value ? 'grant' : 'shutdown');
      const { attempt } = store.acquires[0]!.request;
      const [first] = store.releases;
      const runOutcome = acquiring.value ? undefined : 'void';
      const released = { job: 'Jobs.run', runOutcome, unanswered: expect.any(Boolean) };
      expect(first!.request).toEqual({ key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 3_000, ...released });
      expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
    }
    expect([...winners]).toEqual(['shutdown', 'grant']);
  });

  it.each([false, true])(
    'keeps the fire of a grant when the grant is repeated late; while it is held: %s',
    async (isHeld) => {
      const { store, locker } = startLocker();
      store.onAcquire = null;
      const acquiring = locker.acquire(locker.request(['k'], lockOptions({ leaseMs: 30_000 }), NO_LABEL, CLAIM));
      await settled();
      store.acquires[0]!.reply(granted(30_000));
      const lock = await acquiring;
      if (!isHeld) await lock.releaseAfter('done');
      store.acquires[0]!.replyLate(granted(30_000));
      await settled();
      expect(store.releases.map(({ request }) => request.runOutcome)).toEqual(isHeld ? [] : ['done', undefined]);
    },
  );

  it('keeps the fire of a lost lock when the grant is repeated late, since it ran', async () => {
    const { store, locker } = startLocker();
    store.onAcquire = null;
    const acquiring = locker.acquire(locker.request(['k'], lockOptions({ leaseMs: 30_000 }), NO_LABEL, CLAIM));
    await settled();
    store.acquires[0]!.reply(granted(30_000));
    const { attempt } = store.acquires[0]!.request;
    await acquiring;
    locker.onWakeUp(attempt, { kind: 'revoked' });
    store.acquires[0]!.replyLate(granted(30_000));
    await settled();
    expect(store.releases.map(({ request }) => request)).toEqual([
      { key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 30_000, runOutcome: undefined, unanswered: false },
    ]);
  });

  it('gives back the fire of an earlier attempt that is granted late, while another is held', async () => {
    const { store, clock, locker } = startLocker();
    store.onAcquire = null;
    const acquiring = locker.acquire(locker.request(['k'], lockOptions(), NO_LABEL, CLAIM));
    await settled();
    store.acquires[0]!.reply({ outcome: 'given-back', cause: new LockStoreError('too few') });
    await clock.advance(40);
    store.acquires[1]!.reply(granted(3_000, 7));
    await acquiring;
    store.acquires[0]!.replyLate(granted(3_000, 5));
    await settled();
    const { attempt } = store.acquires[0]!.request;
    expect(store.releases.map(({ request }) => request)).toMatchObject([{ attempt, runOutcome: 'void' }]);
  });

  it('is not given back for ever after a shutdown: an unconfirmed release ends with its lease', async () => {
    const { store, clock, locker, reporter, abort } = await abandon(['k']);
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    abort();
    await settled();
    const closing = outcomeOf(locker.close(0));
    // The lease is of three seconds: without the shutdown it would be tried for so long.
    await clock.advance(1_000);
    expect(closing).toHaveProperty('value');
    await clock.advance(1_000);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
    expect(reporter.lines).toEqual(['warn The lock "k" could not be released and ends with its lease: down']);
    const asked = store.releases.length;
    await clock.advance(10_000);
    expect(store.releases).toHaveLength(asked);
  });

  it('is given back until its lease ends without a shutdown', async () => {
    const { store, clock, locker, abort } = await abandon(['k']);
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    abort();
    await clock.advance(2_900);
    expect(locker.live.releasing).toBe(1);
  });
});
