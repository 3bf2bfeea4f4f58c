import { LockBusyError, LockClaimedError, LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { type FireClaim } from '../../../../../lib/core/store/fires.js';
import { type AcquireReply } from '../../../../../lib/core/store/lock-store.js';
import { runWithLock } from '../../../../../lib/core/reentry/run.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { startAcquisition } from '../../../../support/core/start-acquisition.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const CLAIM: FireClaim = {
  job: 'Jobs.run',
  kind: 'at',
  ms: 1_700_000_000_000,
  calledAt: 0,
  rememberMs: 60_000,
  rerunOnLoss: false,
};

describe('a reply that comes after the caller was told that it failed', () => {
  it.each([
    ['a grant', granted(3_000)],
    ['a place in the queue', busy()],
  ])('makes the attempt be given back when the caller has gone: %s', async (_what, reply) => {
    const { clock, store, abandoned } = startAcquisition({ waitMs: 1_000 });
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(1_000);
    expect(abandoned).toEqual(['client.1']);
    store.acquires[0]!.replyLate(reply);
    expect(abandoned).toEqual(['client.1', 'client.1']);
  });

  it('does not give the attempt back when it is a refusal', async () => {
    const { clock, store, abandoned } = startAcquisition({ waitMs: 1_000 });
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(1_000);
    store.acquires[0]!.replyLate({ outcome: 'refused', reason: 'released' });
    expect(abandoned).toEqual(['client.1']);
  });

  it('does not give the attempt back while that still waits', async () => {
    const { clock, store, abandoned, outcome } = startAcquisition();
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    store.acquires[0]!.replyLate(granted(3_000));
    expect(abandoned).toEqual([]);
    store.acquires[1]!.reply(granted(3_000));
    await settled();
    expect([outcome.grant?.attempt, abandoned]).toEqual(['client.1', []]);
  });

  it('does not give the attempt back while that holds the lock, but does after its release', async () => {
    const { clock, store, locker } = startLocker();
    store.onAcquire = null;
    const acquiring = locker.acquire(locker.request(['k'], lockOptions()));
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    store.acquires[1]!.reply(granted(3_000));
    const lock = await acquiring;
    store.acquires[0]!.replyLate(granted(3_000));
    await settled();
    expect([store.givenBack, lock.held]).toEqual([[], true]);
    await lock.release();
    store.acquires[0]!.replyLate(granted(3_000));
    await settled();
    expect(store.givenBack).toEqual(['k', 'k']);
  });

  it('gives the attempt back on its terms: the lock stays taken for `holdAtLeastMs` after a grant that its caller had', async () => {
    const { clock, store, locker } = startLocker();
    store.onAcquire = null;
    const acquiring = locker.acquire(locker.request(['k'], lockOptions({ holdAtLeastMs: 900 })));
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    store.acquires[1]!.reply(granted(3_000));
    await (await acquiring).release();
    store.acquires[0]!.replyLate(granted(3_000));
    await settled();
    expect(store.releases.map(({ request }) => request.holdAtLeastMs)).toEqual([900, 900]);
  });

  it('gives a replaced attempt back while its successor goes on', async () => {
    const { clock, store, abandoned, outcome } = startAcquisition();
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    store.acquires[1]!.reply({ outcome: 'refused', reason: 'released' });
    await settled();
    expect(store.acquires[2]!.request.attempt).toBe('client.2');
    store.acquires[0]!.replyLate(granted(3_000));
    expect(abandoned).toEqual(['client.1']);
    store.acquires[2]!.reply(granted(3_000));
    await settled();
    expect([outcome.grant?.attempt, abandoned]).toEqual(['client.2', ['client.1']]);
  });

  it('gives back every key of the call', async () => {
    const { clock, store, locker } = startLocker();
    store.onAcquire = () => {
      throw new LockStoreError('down');
    };
    const outcome = outcomeOf(locker.acquire(locker.request(['b', 'a'], lockOptions({ waitMs: 0 }))));
    await clock.advance(1_000);
    expect([outcome.error, store.givenBack]).toEqual([expect.any(LockStoreError), ['a', 'b']]);
  });
});

describe('a grant that is pushed to a call for several keys', () => {
  it('is requested, since the message names the token of only one key', async () => {
    const { store, outcome, push } = startAcquisition({}, { keys: ['a', 'b'] });
    store.acquires[0]!.reply(busy({ serverTimeMs: 10_000 }));
    await settled();
    push(9, 10_000, 2_000);
    await settled();
    expect([outcome.grant, store.acquires.length]).toEqual([undefined, 2]);
  });
});

describe('a claim of a fire', () => {
  it('is sent with every command, and is part of the grant', async () => {
    const { clock, store, outcome } = startAcquisition({}, { claim: CLAIM });
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    expect(store.acquires.map(({ request }) => request.claim)).toEqual([CLAIM, CLAIM]);
    store.acquires[1]!.reply({ ...granted(3_000), fireMs: CLAIM.ms } as AcquireReply);
    await settled();
    expect(outcome.grant?.fire).toEqual({ job: 'Jobs.run', ms: CLAIM.ms, rememberMs: 60_000 });
  });

  it('rejects with LockClaimedError, which is a LockBusyError, when it is refused, and leaves nothing', async () => {
    const { store, timers, outcome } = startAcquisition({ waitMs: 0 }, { claim: CLAIM });
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'claimed' });
    await settled();
    expect(outcome.error).toBeInstanceOf(LockClaimedError);
    expect(outcome.error).toBeInstanceOf(LockBusyError);
    expect(outcome.error).toMatchObject({ code: 'LOCK_BUSY', key: 'k' });
    expect([timers.size, store.acquires.length]).toEqual([0, 1]);
  });

  it.each([
    ['done', 'value'],
    ['failed', new Error('business')],
  ] as const)('reports at its release that the run is %s, and other locks report nothing', async (outcome, end) => {
    const { store, locker, under } = startLocker();
    const work = async (): Promise<string> => {
      if (end instanceof Error) throw end;
      return end;
    };
    const lock = await locker.acquire(locker.request(['job'], lockOptions(), undefined, CLAIM));
    await Promise.allSettled([runWithLock(lock, work)]);
    await Promise.allSettled([under('plain', work)]);
    expect(store.releases.map(({ request }) => [request.key, request.runOutcome])).toEqual([
      ['job', outcome],
      ['plain', undefined],
    ]);
  });
});
