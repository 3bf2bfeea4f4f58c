import { waiterLeaseMs } from '../../../../../lib/core/timing.js';
import { LockBusyError, LockStoreError, LockWaitTimeoutError } from '../../../../../lib/core/lock.errors.js';
import { type AcquireReply } from '../../../../../lib/core/store/lock-store.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { startAcquisition } from '../../../../support/core/start-acquisition.js';

const SPLIT = busy({ retryMs: 10, isSplit: true, isSpent: true, holder: undefined });
const CAUSE = new LockStoreError('Only 1 of 3 masters answered.');
const GIVEN_BACK: AcquireReply = { outcome: 'given-back', cause: CAUSE };

type Started = ReturnType<typeof startAcquisition>;

/** Answers all commands from the first on, and notes when they came. */
function answerAll({ clock, store }: Started, reply: (n: number) => AcquireReply): number[] {
  const times = [clock.now()];
  store.acquires[0]!.reply(reply(0));
  store.onAcquire = () => {
    times.push(clock.now());
    return reply(times.length - 1);
  };
  return times;
}
const pausesOf = (times: readonly number[]): number[] => times.slice(1).map((at, i) => at - times[i]!);
const attemptsOf = ({ store }: Started): string[] => store.acquires.map(({ request }) => request.attempt);

describe('an acquisition whose votes are split', () => {
  it('is retried even when it must not wait, after pauses that grow up to eightfold', async () => {
    const started = startAcquisition({ waitMs: 0 });
    const times = answerAll(started, () => SPLIT);
    await started.clock.advance(599);
    expect(pausesOf(times)).toEqual([10, 20, 30, 40, 50, 60, 70, 80, 80, 80]);
    expect(started.outcome).toMatchObject({ grant: undefined, error: undefined });
  });

  it('is granted by a retry', async () => {
    const started = startAcquisition({ waitMs: 0 });
    answerAll(started, (n) => (n < 3 ? SPLIT : granted(3_000, 7)));
    await started.clock.advance(60);
    const { outcome, abandoned, timers, attempts } = started;
    expect(outcome.grant).toMatchObject({ attempt: 'client.4', holds: [{ attempt: 'client.4', fencingToken: 7 }] });
    expect([abandoned, timers.size]).toEqual([[], 0]);
    expect(attempts).toEqual(['client.1', 'client.2', 'client.3', 'client.4', null]);
  });

  it('rejects with LockBusyError when votes are still split after a second, and leaves nothing', async () => {
    const nodes = [{ node: 'n1', answer: 'granted', detail: '' }] as const;
    const started = startAcquisition({ waitMs: 0 });
    answerAll(started, () => ({ ...SPLIT, nodes }) as AcquireReply);
    await started.clock.advance(999);
    expect(started.outcome.error).toBeUndefined();
    await started.clock.advance(1);
    const { outcome, abandoned, timers, attempts, store } = started;
    expect(outcome.error).toBeInstanceOf(LockBusyError);
    expect(outcome.error).toMatchObject({ key: 'k', nodes });
    expect([abandoned, timers.size, attempts.at(-1)]).toEqual([[], 0, null]);
    const asked = store.acquires.length;
    await started.clock.advance(10_000);
    expect(store.acquires).toHaveLength(asked);
  });

  it('rejects at once, without waiting, when the lock has a holder after all', async () => {
    const started = startAcquisition({ waitMs: 0 });
    answerAll(started, (n) => (n < 2 ? SPLIT : busy()));
    await started.clock.advance(30);
    expect(started.outcome.error).toBeInstanceOf(LockBusyError);
    expect([started.store.acquires.length, started.timers.size]).toEqual([3, 0]);
  });

  it('rejects with LockWaitTimeoutError when it may wait, and gives its last attempt back', async () => {
    const started = startAcquisition({ waitMs: 1_500 });
    answerAll(started, () => SPLIT);
    await started.clock.advance(1_500);
    const { outcome, abandoned, timers, attempts } = started;
    expect(outcome.error).toBeInstanceOf(LockWaitTimeoutError);
    expect([abandoned, timers.size]).toEqual([[attempts.at(-2)], 0]);
  });

  it('waits for the pause even when woken while it sent a request, and retries at once when woken later', async () => {
    const started = startAcquisition();
    const { clock, store, acquisition } = started;
    acquisition.onWakeUp({ kind: 'wake' });
    store.acquires[0]!.reply(SPLIT);
    await clock.advance(9.9);
    expect(store.acquires).toHaveLength(1);
    acquisition.onWakeUp({ kind: 'wake' });
    expect(attemptsOf(started)).toEqual(['client.1', 'client.2']);
    await clock.advance(1_000);
    expect(store.acquires).toHaveLength(2);
  });

  it('starts with short pauses again when votes were not split in between', async () => {
    const started = startAcquisition();
    const held = busy({ ahead: 0, retryMs: 98 });
    const times = answerAll(started, (n) => (n === 3 ? held : SPLIT));
    await started.clock.advance(200);
    expect(pausesOf(times)).toEqual([10, 20, 30, 100, 10, 20]);
  });

  it('ends its pause when it is cancelled, and leaves nothing when it must not wait', async () => {
    const controller = new AbortController();
    const started = startAcquisition({ waitMs: 0, signal: controller.signal });
    answerAll(started, () => SPLIT);
    await settled();
    controller.abort(new Error('gone'));
    await started.clock.advance(1_000);
    expect([started.abandoned, started.timers.size, started.store.acquires.length]).toEqual([[], 0, 1]);
  });

  it('keeps its attempt when nothing was granted', async () => {
    const started = startAcquisition({ waitMs: 0 });
    answerAll(started, (n) => (n === 0 ? { ...SPLIT, isSpent: false } : granted(3_000)));
    await started.clock.advance(10);
    expect([attemptsOf(started), started.attempts]).toEqual([
      ['client.1', 'client.1'],
      ['client.1', null],
    ]);
  });
});

describe('an acquisition whose attempt has ended', () => {
  it('starts a new attempt, even when the lock is held', async () => {
    const started = startAcquisition();
    answerAll(started, (n) => busy({ ahead: 1, isSpent: n === 0, isSplit: false }));
    await started.clock.advance((waiterLeaseMs(3_000) / 3) * 2);
    expect(attemptsOf(started)).toEqual(['client.1', 'client.2', 'client.2']);
    // The places of the spent one are given back when the new one asks.
    expect([started.attempts, started.abandoned]).toEqual([['client.1', 'client.2'], ['client.1']]);
  });

  it('rejects at once when the lock has a holder and it must not wait', async () => {
    const { store, outcome, attempts, abandoned } = startAcquisition({ waitMs: 0 });
    store.acquires[0]!.reply(busy({ isSpent: true, isSplit: false }));
    await settled();
    expect(outcome.error).toBeInstanceOf(LockBusyError);
    expect([attempts, abandoned]).toEqual([['client.1', null], []]);
  });

  it('gives back a late grant of the ended attempt', async () => {
    const started = startAcquisition();
    const [first] = started.store.acquires;
    first!.reply(SPLIT);
    await settled();
    first!.replyLate(granted(3_000, 5));
    expect(started.abandoned).toEqual(['client.1']);
    await started.clock.advance(10);
    started.store.acquires[1]!.reply(granted(3_000, 7));
    await settled();
    expect(started.outcome.grant).toMatchObject({ attempt: 'client.2', holds: [{ fencingToken: 7 }] });
    expect(started.abandoned).toEqual(['client.1']);
  });

  it('is not affected when the ended attempt is revoked', async () => {
    const started = startAcquisition();
    started.acquisition.onWakeUp({ kind: 'revoked' });
    started.store.acquires[0]!.reply(SPLIT);
    await started.clock.advance(10);
    started.store.acquires[1]!.reply(granted(3_000, 7));
    await settled();
    expect(started.outcome.grant?.attempt).toBe('client.2');
  });
});

describe('an acquisition whose grant was given back', () => {
  it('starts a new attempt after the pause of a failure', async () => {
    const started = startAcquisition();
    const times = answerAll(started, (n) => (n < 3 ? GIVEN_BACK : granted(3_000, 7)));
    await settled();
    expect(started.store.acquires).toHaveLength(1);
    await started.clock.advance(1_000);
    expect(attemptsOf(started)).toEqual(['client.1', 'client.2', 'client.3', 'client.4']);
    const limits = [40, 80, 160];
    pausesOf(times).forEach((pause, i) => {
      expect(pause).toBeGreaterThanOrEqual(limits[i]! / 2);
      expect(pause).toBeLessThanOrEqual(limits[i]!);
    });
    expect(started.outcome.grant).toMatchObject({ attempt: 'client.4', holds: [{ fencingToken: 7 }] });
    expect([started.abandoned, started.timers.size]).toEqual([[], 0]);
  });

  it.each([
    [0, 1_000],
    [400, 1_000],
    [5_000, 5_000],
  ])('rejects with waitMs %d with LockStoreError after %d ms, with the cause', async (waitMs, limitMs) => {
    const nodes = [{ node: 'n1', answer: 'granted', detail: '' }] as const;
    const cause = new LockStoreError('Only 1 of 3 masters answered.', { nodes });
    const started = startAcquisition({ waitMs });
    answerAll(started, () => ({ outcome: 'given-back', cause }));
    await started.clock.advance(limitMs - 1);
    expect(started.outcome.error).toBeUndefined();
    await started.clock.advance(1);
    expect(started.outcome.error).toBeInstanceOf(LockStoreError);
    expect(started.outcome.error).toMatchObject({ key: 'k', cause, nodes });
    expect((started.outcome.error as Error).message).toContain('Only 1 of 3 masters answered.');
    expect(started.timers.size).toBe(0);
  });

  it('ends at once, with the cause, when a retry cannot help', async () => {
    const cause = new LockStoreError('WRONGPASS', { retryable: false });
    const { store, timers, outcome } = startAcquisition();
    store.acquires[0]!.reply({ outcome: 'given-back', cause });
    await settled();
    expect([outcome.error, store.acquires.length, timers.size]).toEqual([cause, 1, 0]);
  });

  it('rejects with LockBusyError when the last answer was busy', async () => {
    const started = startAcquisition({ waitMs: 0 });
    answerAll(started, (n) => (n === 0 ? GIVEN_BACK : busy()));
    await started.clock.advance(40);
    expect(started.outcome.error).toBeInstanceOf(LockBusyError);
  });

  it('rejects with LockStoreError when it was busy only before the failure', async () => {
    const started = startAcquisition({ waitMs: 2_000 });
    answerAll(started, (n) => (n === 0 ? busy({ retryMs: 100 }) : GIVEN_BACK));
    await started.clock.advance(2_000);
    expect(started.outcome.error).toMatchObject({ code: 'LOCK_STORE', cause: CAUSE });
  });

  it('is not affected when the earlier attempt is revoked', async () => {
    const started = startAcquisition();
    started.acquisition.onWakeUp({ kind: 'revoked' });
    answerAll(started, (n) => (n === 0 ? GIVEN_BACK : granted(3_000)));
    await started.clock.advance(40);
    expect([started.outcome.grant?.attempt, started.abandoned]).toEqual(['client.2', []]);
  });

  it.each<[string, AcquireReply]>([
    ['was given back', GIVEN_BACK],
    ['was refused', { outcome: 'refused', reason: 'claimed' }],
  ])('gives nothing back a second time when it learns late that it %s', async (_what, reply) => {
    const controller = new AbortController();
    const { store, abandoned } = startAcquisition({ signal: controller.signal });
    controller.abort(new Error('gone'));
    expect(abandoned).toEqual(['client.1']);
    store.acquires[0]!.reply(reply);
    await settled();
    store.acquires[0]!.replyLate(reply);
    expect(abandoned).toEqual(['client.1']);
  });
});
