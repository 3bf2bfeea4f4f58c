import { NO_LABEL } from '../../../lib/core/lock-label.js';
import { type FireClaim } from '../../../lib/core/lock-store.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { lockOptions, outcomeOf, startLocker } from '../../support/core-parts.js';
import { settled } from '../../support/fake-clock.js';
import { busy, granted } from '../../support/fake-store.js';

const CLAIM: FireClaim = { kind: 'at', ms: 60_000, calledAt: 0, rememberMs: 120_000, rerunOnLoss: false };

/** An acquisition that waits, and was aborted. */
async function abandon(keys: readonly string[], claim?: FireClaim) {
  const started = startLocker();
  started.store.onAcquire = () => busy();
  const controller = new AbortController();
  const options = lockOptions({ signal: controller.signal });
  const outcome = outcomeOf(started.locker.acquire(keys, options, NO_LABEL, claim));
  await settled();
  return { ...started, outcome, abort: () => controller.abort(new Error('gone')) };
}

describe('an acquisition that is abandoned', () => {
  it('gives back the fire that it may have claimed', async () => {
    const { store, abort, locker } = await abandon(['k'], CLAIM);
    const { attempt } = store.acquires[0]!.request;
    abort();
    await settled();
    expect(store.releases.map(({ request }) => request)).toEqual([
      { key: 'k', attempt, minHoldMs: 0, runOutcome: 'void' },
    ]);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('tells of no run where it claimed none, for each of its keys', async () => {
    const { store, abort } = await abandon(['a', 'b']);
    const { attempt } = store.acquires[0]!.request;
    abort();
    await settled();
    expect(store.releases.map(({ request }) => request)).toStrictEqual(
      ['a', 'b'].map((key) => ({ key, attempt, minHoldMs: 0, runOutcome: undefined })),
    );
  });

  it('gives back the fire of a grant that came while it shut down', async () => {
    const { store, locker } = startLocker();
    store.onAcquire = null;
    const acquiring = outcomeOf(locker.acquire(['k'], lockOptions(), NO_LABEL, CLAIM));
    await settled();
    store.acquires[0]!.reply(granted(3_000));
    await Promise.resolve();
    const closing = locker.close(0);
    await settled();
    await closing;
    expect(acquiring.value).toBeUndefined();
    const { attempt } = store.acquires[0]!.request;
    expect(store.releases[0]!.request).toEqual({ key: 'k', attempt, minHoldMs: 0, runOutcome: 'void' });
  });

  it('is not given back for ever after a shutdown: what is not confirmed ends with its lease', async () => {
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

  it('is given back until its lease is over while there is no shutdown', async () => {
    const { store, clock, locker, abort } = await abandon(['k']);
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    abort();
    await clock.advance(2_900);
    expect(locker.live.releasing).toBe(1);
  });
});
