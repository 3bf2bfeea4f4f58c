import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../../lib/core/store/fires.js';
import { type AcquireReply } from '../../../../lib/core/store/lock-store.js';
import { NOTHING } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { CLAIM, startCall } from './start-calls.js';

const TIMED_OUT = new LockStoreError('timed out');

type Options = Partial<ResolvedLockOptions>;

/** A call whose first command timed out, and whose second one was granted. */
async function startGranted(options: Options = {}, claim?: FireClaim) {
  const started = startCall(options, { claim });
  started.store.acquires[0]!.fail(TIMED_OUT);
  await started.clock.advance(100);
  await started.reply(granted(3_000));
  return { ...started, lock: started.outcome.value! };
}

/** A call that waits in the store, and is cancelled by `abort`. */
async function startWaiting(options: Options = {}, caller: Parameters<typeof startCall>[1] = {}) {
  const controller = new AbortController();
  const started = startCall({ signal: controller.signal, ...options }, caller);
  await started.reply(busy());
  return { ...started, abort: () => controller.abort() };
}

describe('a reply that comes after its command has timed out', () => {
  it.each<[string, AcquireReply, number[]]>([
    ['gives the attempt back again when it is a grant', granted(3_000), [1, 1]],
    ['gives the attempt back again when it is a place in the queue', busy(), [1, 1]],
    ['leaves it when it is a refusal', { outcome: 'refused', reason: 'released' }, [1]],
  ])('of a call that has failed %s', async (_what, reply, expected) => {
    const { clock, store, givenBack, finish } = startCall({ waitMs: 1_000 });
    store.acquires[0]!.fail(TIMED_OUT);
    await clock.advance(100);
    await clock.advance(900);
    expect(givenBack()).toEqual([1]);
    store.acquires[0]!.replyLate(reply);
    await settled();
    expect(givenBack()).toEqual(expected);
    await finish();
  });

  it('does not give the attempt back while that still waits', async () => {
    const { clock, store, outcome, reply, attempts, givenBack } = startCall();
    store.acquires[0]!.fail(TIMED_OUT);
    await clock.advance(100);
    store.acquires[0]!.replyLate(granted(3_000));
    await settled();
    expect(givenBack()).toEqual([]);
    await reply(granted(3_000));
    expect([outcome.value?.held, attempts(), givenBack()]).toEqual([true, [1, 1], []]);
  });

  it.each([0, 900])(
    'gives the attempt back only after its release, which keeps it for %d ms',
    async (holdAtLeastMs) => {
      const { store, lock, givenBack } = await startGranted({ holdAtLeastMs });
      store.acquires[0]!.replyLate(granted(3_000));
      await settled();
      expect([givenBack(), lock.held]).toEqual([[], true]);
      await lock.release();
      store.acquires[0]!.replyLate(granted(3_000));
      await settled();
      expect(store.releases.map(({ request }) => request.holdAtLeastMs)).toEqual([holdAtLeastMs, holdAtLeastMs]);
    },
  );
});

describe('a call that has left the queue', () => {
  it.each<[string, FireClaim | undefined, readonly string[], Options, object]>([
    ['the fire that it may have claimed', CLAIM, ['k'], {}, { job: 'Jobs.run', runOutcome: 'void' }],
    ['all of its keys, and reports no run', undefined, ['a', 'b'], {}, {}],
    ['them for as long as it may have been granted', undefined, ['k'], { holdAtLeastMs: 60_000 }, { leaseMs: 60_000 }],
  ])('gives back %s', async (_what, claim, keys, options, expected) => {
    const { store, abort, finish } = await startWaiting(options, { keys, claim });
    const { attempt, leaseMs } = store.acquires[0]!.request;
    abort();
    await settled();
    const rest = { holdAtLeastMs: 0, job: undefined, runOutcome: undefined, unanswered: false };
    const all = keys.map((key) => ({ key, attempt, leaseMs, ...rest, ...expected }));
    expect(store.releases.map(({ request }) => request)).toStrictEqual(all);
    await finish();
  });

  it('is not given back that long after a shutdown', async () => {
    const { store, clock, locker, reporter, abort } = await startWaiting();
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    abort();
    await settled();
    const closing = outcomeOf(locker.close(0));
    await clock.advance(1_000);
    expect(closing).toHaveProperty('value');
    await clock.advance(1_000);
    expect(locker.live).toEqual(NOTHING);
    expect(reporter.lines).toEqual(['warn The lock "k" could not be released and ends with its lease: down']);
    const asked = store.releases.length;
    await clock.advance(10_000);
    expect(store.releases).toHaveLength(asked);
  });
});

describe('the fire of a job', () => {
  it('is given back when its grant comes during a shutdown, unless the call has it', async () => {
    const winners = new Set<string>();
    for (let turns = 0; turns < 12; turns += 1) {
      const { store, clock, locker, outcome } = startCall({}, { claim: CLAIM });
      await settled();
      store.acquires[0]!.reply(granted(3_000));
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      const closing = outcomeOf(locker.close(0));
      await clock.advance(1);
      expect(closing).toHaveProperty('value');
      winners.add(outcome.value ? 'grant' : 'shutdown');
      const { attempt } = store.acquires[0]!.request;
      const runOutcome = outcome.value ? undefined : 'void';
      const released = { job: 'Jobs.run', runOutcome, unanswered: expect.any(Boolean) };
      expect(store.releases[0]!.request).toEqual({ key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 3_000, ...released });
      expect(locker.live).toEqual(NOTHING);
    }
    expect([...winners]).toEqual(['shutdown', 'grant']);
  });

  it.each([
    ['while it is held', 'held', []],
    ['after its run', 'done', ['done', undefined]],
    ['after its loss', 'lost', [undefined]],
  ])('stays claimed when its grant is repeated late: %s', async (_what, state, outcomes) => {
    const { store, lock, revoke } = await startGranted({}, CLAIM);
    if (state === 'done') await lock.releaseAfter('done');
    if (state === 'lost') revoke();
    store.acquires[0]!.replyLate(granted(3_000));
    await settled();
    expect(store.releases.map(({ request }) => request.runOutcome)).toEqual(outcomes);
  });
});
