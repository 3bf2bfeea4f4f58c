import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type RenewReply } from '../../../../lib/core/store/lock-store.js';
import { RELEASE_PATIENCE_MS } from '../../../../lib/core/timing.js';
import { NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gone, granted } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const RENEWED: RenewReply = { outcome: 'renewed', remainingMs: 3_000 };
const SILENT: RenewReply = { outcome: 'unknown', cause: new LockStoreError('no answer') };

interface Call {
  readonly value?: unknown;
  readonly error?: any;
}

/** Calls that run one after the other, each under the lock that the one before has handed on; the test answers the renewals. */
async function startRow(count: number, last?: () => Promise<void>, options?: Partial<ResolvedLockOptions>) {
  const parts = startLocker({ reservesTokens: true });
  const { store, under, locker } = parts;
  store.onRenew = null;
  const lost: unknown[] = [];
  locker.events.on('lost', ({ fencingToken, reason, earlier }) =>
    lost.push([fencingToken, reason, earlier.map((one) => one.fencingToken)]),
  );
  const work = (i: number) => () => (i === count - 1 ? last?.() : undefined);
  const calls: Call[] = Array.from({ length: count }, (_, i) =>
    outcomeOf(under('k', work(i), { ...options, note: `call ${i}` })),
  );
  await settled();
  const answer = async (nth: number, reply: RenewReply): Promise<void> => {
    store.renews[nth]!.reply([reply]);
    await settled();
  };
  const statuses = (): string[] =>
    calls.map((call) => ('error' in call ? call.error.code : 'value' in call ? 'done' : '-'));
  const finish = (): void => expect(locker.live).toEqual(NOTHING);
  return { ...parts, calls, lost, answer, statuses, finish };
}

const forEver = (): Promise<void> => new Promise(() => undefined);

describe('a call that hands the lock on', () => {
  it('resolves with the next proof, which one renewal at a time brings for all that have ended before it', async () => {
    const { store, answer, statuses } = await startRow(4, forEver);
    const noted = () =>
      store.renews.map(({ request }) => request.map(({ holder, hasNewHolder }) => [holder, hasNewHolder]));
    expect([statuses(), noted()]).toEqual([['-', '-', '-', '-'], [[['host:1\t10000\tcall 1', true]]]]);
    await answer(0, RENEWED);
    expect([statuses(), noted()[1]]).toEqual([['done', '-', '-', '-'], [['host:1\t10000\tcall 3', true]]]);
    await answer(1, RENEWED);
    expect([statuses(), store.renews.length]).toEqual([['done', 'done', 'done', '-'], 2]);
  });

  it('does not resolve with a proof that was requested before its end, however many came before', async () => {
    const { store, under } = startLocker({ reservesTokens: true });
    store.onRenew = null;
    const [ends, prove] = [[0, 1, 2, 3].map(() => gate()), (nth: number) => store.renews[nth]!.reply([RENEWED])];
    const calls: Call[] = ends.map(({ opened }) => outcomeOf(under('k', () => opened)));
    const settledBy = async (what: () => void): Promise<number> => {
      what();
      await settled();
      return calls.filter((call) => 'value' in call).length;
    };
    const steps = [() => ends[0]!.open(), () => prove(0), () => ends[1]!.open(), () => ends[2]!.open(), () => prove(1)];
    const counts: number[] = [];
    for (const step of [...steps, () => prove(2)]) counts.push(await settledBy(step));
    expect(counts).toEqual([0, 1, 1, 1, 2, 3]);
  });

  it('does not resolve with a proof that was requested before its end, next to an earlier one', async () => {
    const { clock, store, under } = startLocker({ reservesTokens: true });
    store.onAcquire = () => granted(10, 100);
    store.onRenew = null;
    const ends = [0, 1, 2, 3].map(() => gate());
    const calls: Call[] = ends.map(({ opened }) => outcomeOf(under('k', () => opened, { leaseMs: 10 })));
    const step = async (what: () => unknown): Promise<boolean[]> => {
      what();
      await settled();
      return calls.map((call) => 'value' in call);
    };
    await step(() => ends[0]!.open());
    await step(() => ends[1]!.open());
    // The renewal of the third call, at a third of the lease.
    await clock.advance(3);
    expect(store.renews.length).toBe(2);
    await step(() => store.renews[0]!.reply([RENEWED]));
    await step(() => ends[2]!.open());
    expect(await step(() => store.renews[1]!.reply([RENEWED]))).toEqual([true, true, false, false]);
  });

  it('resolves with a proof that follows a renewal of before its end', async () => {
    const { clock, store, under } = startLocker({ reservesTokens: true });
    store.onAcquire = () => granted(10, 100);
    store.onRenew = null;
    const { opened, open } = gate();
    const first: Call = outcomeOf(under('k', () => opened, { leaseMs: 10 }));
    void under('k', forEver, { leaseMs: 10 });
    await clock.advance(3);
    open();
    await settled();
    const steps: boolean[] = [];
    for (const nth of [0, 1]) {
      store.renews[nth]!.reply([RENEWED]);
      await settled();
      steps.push('value' in first);
    }
    expect(steps).toEqual([false, true]);
  });

  it('resolves with the release of the last one, if that is answered first', async () => {
    const { store, statuses, finish } = await startRow(3);
    expect([statuses(), store.renews.length, store.releases.length]).toEqual([['done', 'done', 'done'], 1, 1]);
    finish();
  });

  it('resolves at once when the release of the last one fails for good', async () => {
    const { opened, open } = gate();
    const { store, statuses, finish } = await startRow(2, () => opened);
    store.onRelease = () => {
      throw new LockStoreError('WRONGPASS', { retryable: false });
    };
    open();
    await settled();
    expect(statuses()).toEqual(['done', 'done']);
    finish();
  });

  it('rejects if the proof shows that the lock is gone, like each call since the last proof', async () => {
    const { answer, statuses, lost } = await startRow(4, forEver);
    await answer(0, RENEWED);
    await answer(1, gone(100));
    expect(statuses()).toEqual(['done', 'LOCK_LOST', 'LOCK_LOST', '-']);
    expect(lost).toEqual([[103, 'expired', [101, 102]]]);
  });

  it('rejects if the release of the last one finds that the lock is gone', async () => {
    const parts = startLocker({ reservesTokens: true });
    const { store, under, locker } = parts;
    store.onRenew = null;
    store.onRelease = () => ({ outcome: 'unknown', holds: 0, lastToken: 100 });
    const calls: Call[] = [0, 1, 2].map(() => outcomeOf(under('k', () => undefined)));
    await settled();
    store.renews[0]!.reply([gone(100)]);
    await settled();
    expect(calls.map(({ error }) => [error.code, error.reason])).toEqual(calls.map(() => ['LOCK_LOST', 'expired']));
    expect(locker.live).toEqual(NOTHING);
  });

  it('rejects if an operator revokes the lock before the proof', async () => {
    const { revoke, statuses } = await startRow(3, forEver);
    revoke();
    await settled();
    expect(statuses()).toEqual(['LOCK_LOST', 'LOCK_LOST', '-']);
  });

  it('rejects if a downgrade by the last one finds that the lock is gone, before the proof', async () => {
    const { locker, answer, statuses, lost } = await startRow(3, forEver);
    const [hold] = locker.holds;
    const downgrade = outcomeOf(hold!.downgrade());
    await answer(1, gone(100));
    expect([downgrade.error, ...statuses()]).toMatchObject([{ code: 'LOCK_LOST' }, 'LOCK_LOST', 'LOCK_LOST', '-']);
    expect(lost).toEqual([[102, 'expired', [100, 101]]]);
  });

  it('rejects if the proof shows that the lock is gone, also when the last one has already held it for too long', async () => {
    const { clock, answer, statuses, lost } = await startRow(2, forEver, { maxHoldMs: 50 });
    await clock.advance(50);
    await answer(0, gone(100));
    expect([statuses(), lost]).toEqual([['LOCK_LOST', '-'], [[101, 'max-hold', [100]]]]);
  });

  it('rejects if an extension finds that the lock is gone, also when the last one has already held it for too long', async () => {
    const { clock, locker, answer, statuses, lost } = await startRow(2, forEver, { maxHoldMs: 50 });
    const [hold] = locker.holds;
    const extension = outcomeOf(hold!.extend(5_000));
    await clock.advance(50);
    await answer(1, gone(100));
    expect([extension.error, ...statuses()]).toMatchObject([{ reason: 'max-hold' }, 'LOCK_LOST', '-']);
    expect(lost).toEqual([[101, 'max-hold', [100]]]);
  });

  it.each<[string, RenewReply, string]>([
    ['resolves', RENEWED, 'done'],
    ['rejects', gone(100), 'LOCK_LOST'],
  ])(
    'asks once more for one that ended during a proof, when the next one has held the lock for too long: it %s',
    async (_what, reply, expected) => {
      const { clock, store, answer, statuses, locker } = await startRow(3, forEver, { maxHoldMs: 50 });
      await clock.advance(50);
      expect(locker.holds.size).toBe(0);
      await answer(0, RENEWED);
      // The lease is not extended for the call that must end.
      expect(store.renews.slice(1).map(({ request }) => request[0]!.leaseMs)).toEqual([0]);
      await answer(1, reply);
      expect([statuses(), store.renews.length]).toEqual([['done', expected, '-'], 2]);
    },
  );

  it('waits for a proof as long as for a release without an answer', async () => {
    const { clock, store, answer, statuses } = await startRow(2, forEver);
    store.onRenew = (requests) => requests.map(() => SILENT);
    await answer(0, SILENT);
    await clock.advance(RELEASE_PATIENCE_MS - 1);
    expect(statuses()).toEqual(['-', '-']);
    await clock.advance(1);
    expect(statuses()).toEqual(['done', '-']);
  });

  it('resolves with the next renewal if the first one has no answer, and hands nothing on meanwhile', async () => {
    const { clock, store, answer, statuses, locker, enter } = await startRow(2, forEver);
    const next = enter('k');
    await answer(0, SILENT);
    const [hold] = locker.holds;
    store.onRenew = (requests) => requests.map(() => RENEWED);
    void hold!.release();
    expect(store.releases.length).toBe(1);
    await settled();
    expect([statuses()[0], (await next).fencingToken]).toEqual(['done', 101]);
    await clock.advance(0);
  });

  it('does not wait with `awaitRelease: false`', async () => {
    const { store, under } = startLocker({ reservesTokens: true });
    store.onRenew = null;
    const first: Call = outcomeOf(under('k', () => 1, { awaitRelease: false }));
    void under('k', forEver);
    await settled();
    expect([first.value, store.renews.length]).toEqual([1, 1]);
  });
});
