import { LockLostError, LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, gone, granted } from '../../../../support/core/fake-store.js';
import { startTurns } from './start-turns.js';

type Started = ReturnType<typeof startTurns>;

/** One call has the lock, and two wait behind it. */
async function startHeld(options?: Parameters<Started['calls']>[1]) {
  const parts = startTurns();
  const [first, second, third] = parts.calls(3, options);
  await settled();
  return { ...parts, lock: first!.value!, second: second!, third: third! };
}

/** The next call has asked the store, and got a lock of its own. */
function expectAskedAnew({ local, store, second, third }: Awaited<ReturnType<typeof startHeld>>): void {
  expect(local()).toEqual([false, false]);
  expect([second.value!.fencingToken, second.value!.held, third]).toEqual([2_000, true, {}]);
  expect(store.acquires[1]!.request.attempt).not.toBe(store.acquires[0]!.request.attempt);
}

describe('a lock that is lost', () => {
  it.each<[string, (started: Awaited<ReturnType<typeof startHeld>>) => unknown]>([
    ['revoked', ({ store }) => store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' })],
    ['taken', ({ lock }) => lock.lose('taken')],
    ['dropped', ({ lock }) => lock.lose('dropped')],
    ['expired', ({ lock }) => lock.expire()],
  ])('is not handed on, and the next call asks at once (%s)', async (reason, lose) => {
    const started = await startHeld();
    const { lock, finish, sent } = started;
    lose(started);
    await settled();
    expect([lock.lost?.reason, sent()[0]]).toEqual([reason, 2]);
    expectAskedAnew(started);
    // Its release concerns nobody else.
    expect(await lock.release()).toBe(false);
    await settled();
    expectAskedAnew(started);
    await finish();
  });

  it('is not handed on by a listener of its signal, which releases it', async () => {
    const started = await startHeld();
    const { store, lock } = started;
    lock.signal.addEventListener('abort', () => void lock.release());
    store.listener!.onWakeUp(lock.attempt, { kind: 'revoked' });
    await settled();
    expectAskedAnew(started);
  });

  it('is not handed on after maxHoldMs: the next call asks, and waits for the work or the lease', async () => {
    const { clock, store, second, third, lock, sent, finish } = await startHeld({ maxHoldMs: 4_000 });
    store.onAcquire = () => busy({ holder: 'host:1', retryMs: 0 });
    await clock.advance(4_000);
    expect([lock.lost?.reason, second, third]).toEqual(['max-hold', {}, {}]);
    const { attempt } = store.acquires[1]!.request;
    expect(new Set(store.acquires.map(({ request }) => request.attempt)).size).toBe(2);
    await lock.release();
    expect(sent()[1]).toBe(1);
    store.listener!.onWakeUp(attempt, { kind: 'granted', fencingToken: 5, remainingMs: 3_000, serverTimeMs: 0 });
    await settled();
    expect([second.value!.held, third]).toEqual([true, {}]);
    await finish();
  });

  it('is not handed on while its holder hangs: the next call asks after maxHoldMs, even in the first 10 ms', async () => {
    const started = await startHeld({ maxHoldMs: 5 });
    await started.clock.advance(5);
    expect(started.lock.lost?.reason).toBe('max-hold');
    expectAskedAnew(started);
  });

  it('counts maxHoldMs from when the call was handed the lock', async () => {
    const { clock, lock, second } = await startHeld({ maxHoldMs: 8 });
    await clock.advance(6);
    await lock.release();
    await settled();
    await clock.advance(7);
    expect([second.value!.held, second.value!.lost]).toEqual([true, null]);
    await clock.advance(1);
    expect(second.value!.lost?.reason).toBe('max-hold');
  });

  it('is lost for the present holder, and not for those before it', async () => {
    const { store, lock, second, third, locker } = await startHeld();
    const { signal } = lock;
    await lock.release();
    await settled();
    const told: unknown[] = [];
    locker.events.on('lost', ({ fencingToken, reason }) => void told.push([fencingToken, reason]));
    store.listener!.onWakeUp(lock.attempt, { kind: 'revoked' });
    await settled();
    expect([lock.lost, signal.aborted, told]).toEqual([null, false, [[1_001, 'revoked']]]);
    expect([second.value!.lost, third.value!.held]).toEqual([expect.any(LockLostError), true]);
    expect(third.value!.fencingToken).toBe(2_000);
  });

  it('is found by the renewal of a call that was handed it', async () => {
    const { clock, store, lock, second } = await startHeld();
    store.onRenew = () => [gone(1_064)];
    store.onAcquire = () => busy();
    await lock.release();
    await clock.advance(2_000);
    expect(second.value!.lost).toMatchObject({ reason: 'taken' });
    expect((second.value!.lost as Error).message).toContain('fencing token 1001');
  });

  it('is found by the release of the last one of a turn', async () => {
    const { store, lock, second, third } = await startHeld();
    await lock.release();
    await settled();
    await second.value!.release();
    await settled();
    store.onRelease = () => ({ outcome: 'lost', holds: 0, lastToken: 1_064 }) as never;
    expect(await third.value!.release()).toBe(false);
    expect([lock.lost, second.value!.lost, third.value!.lost]).toMatchObject([null, null, { reason: 'taken' }]);
  });
});

describe('a lock with another command since its grant', () => {
  it('is not handed on while an extension is under way', async () => {
    const started = await startHeld();
    const { store, lock } = started;
    store.onRenew = null;
    const extending = lock.extend(3_000).catch((error: unknown) => error);
    await lock.release();
    await settled();
    expectAskedAnew(started);
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: 3_000 }]);
    expect(await extending).toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(started.second.value!.remainingMs).toBe(2_968);
  });

  it('is not handed on while an extension by less than its lease is under way', async () => {
    const started = await startHeld();
    const { store, lock } = started;
    store.onRenew = null;
    void lock.extend(100).catch(() => undefined);
    await lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it.each([60_000, 3_000, 100])('is not handed on after an extension by %d ms', async (leaseMs) => {
    const started = await startHeld();
    await started.lock.extend(leaseMs);
    await started.lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it('is not handed on after an extension without an answer', async () => {
    const started = await startHeld();
    const { store, lock } = started;
    const cause = new LockStoreError('no answer', {});
    store.onRenew = () => [{ outcome: 'unknown', cause }];
    await lock.extend(3_000).catch(() => undefined);
    await lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it('is not handed on while a renewal is under way', async () => {
    const started = await startHeld({ leaseMs: 20 });
    const { clock, store, lock } = started;
    store.onRenew = null;
    // 17.8 ms are proven, and a third of that is 6.
    await clock.advance(6);
    expect([store.renews.length, lock.provenMs > 9]).toEqual([1, true]);
    await lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it.each(['under way', 'done'])('is not handed on when a downgrade is %s', async (state) => {
    const started = await startHeld();
    const { store, lock } = started;
    if (state === 'under way') store.onDowngrade = null;
    const downgrading = lock.downgrade();
    if (state === 'done') await downgrading;
    await lock.release();
    await settled();
    expectAskedAnew(started);
  });

  it('is not handed on while a command of its attempt has no answer', async () => {
    const started = startTurns();
    const { clock, store, calls } = started;
    store.onAcquire = null;
    const [first, second, third] = calls(3);
    store.acquires[0]!.fail(new LockStoreError('no answer', { retryable: true, wasSent: true }));
    await clock.advance(500);
    store.acquires[1]!.reply(granted(3_000, 1_000));
    await settled();
    store.onAcquire = () => granted(3_000, 2_000);
    expect(first!.value!.isUnanswered).toBe(true);
    await first!.value!.release();
    await settled();
    expect([started.local(), second!.value!.fencingToken, third]).toEqual([[false, false], 2_000, {}]);
    expect(store.releases[0]!.request.unanswered).toBe(true);
  });

  it('is handed on after one that was never sent', async () => {
    const { clock, store, calls, local } = startTurns();
    store.onAcquire = null;
    const [first] = calls(2);
    store.acquires[0]!.fail(new LockStoreError('not connected', { retryable: true, wasSent: false }));
    await clock.advance(500);
    store.acquires[1]!.reply(granted(3_000, 1_000));
    await settled();
    await first!.value!.release();
    await settled();
    expect(local()).toEqual([false, true]);
  });

  it('is not handed on after messages were missed: it may have been revoked', async () => {
    const started = await startHeld();
    const { clock, store, lock } = started;
    clock.jump(1);
    store.listener!.onMessagesMissed();
    await lock.release();
    await settled();
    expectAskedAnew(started);
  });
});
