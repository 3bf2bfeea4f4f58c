import { settled } from '../../../../support/core/fake-clock.js';
import { gone } from '../../../../support/core/fake-store.js';
import { DEADLINE_MS, LEASE_MS, THIRD_MS, startWatchdog } from '../../../../support/core/start-watchdog.js';

describe('the watchdog, when the store does not answer', () => {
  it('retries until the local deadline, and only then the lock is lost: unreachable, with the cause', async () => {
    const { clock, store, watched, reporter, timers } = startWatchdog();
    const cause = new Error('ECONNREFUSED');
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause }));
    const lock = watched();
    const { signal } = lock;
    await clock.advance(DEADLINE_MS - 1);
    expect([lock.held, signal.aborted]).toEqual([true, false]);
    expect(store.renews.length).toBeGreaterThan(5);
    await clock.advance(2);
    expect(lock.lost).toMatchObject({ reason: 'unreachable', cause });
    expect(signal.reason).toBe(lock.lost);
    expect(timers.size).toBe(0);
    expect(reporter.lines.filter((line) => line.startsWith('warn'))).toHaveLength(1);
  });

  it('retries once more before the end, however little time is left after a failure', async () => {
    const { clock, store, watched } = startWatchdog();
    const lock = watched({ leaseMs: 30_000 });
    await clock.advance(10_000);
    await clock.advance(18_900);
    store.renews[0]!.fail(new Error('down'));
    store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
    await clock.advance(60_000);
    expect(lock.lost).toBeNull();
  });

  it('treats a rejected command like no answer', async () => {
    const { clock, store, watched, renewing } = startWatchdog();
    const lock = watched();
    await clock.advance(THIRD_MS);
    store.renews[0]!.fail(new Error('broken'));
    renewing();
    await clock.advance(LEASE_MS);
    expect(lock.held).toBe(true);
  });

  it('renews as before once it gets an answer again', async () => {
    const { clock, store, watched, renewing, reporter } = startWatchdog();
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    const lock = watched();
    await clock.advance(2_000);
    renewing();
    await clock.advance(200);
    const asked = store.renews.length;
    await clock.advance(10_000);
    expect(lock.held).toBe(true);
    expect(store.renews.length - asked).toBe(10);
    expect(reporter.lines).toHaveLength(1);
  });

  it('reports expired, not unreachable, when an answer came since', async () => {
    const { clock, store, watched } = startWatchdog();
    const lock = watched();
    await clock.advance(THIRD_MS);
    store.renews[0]!.reply([{ outcome: 'unknown', cause: new Error('down') }]);
    await clock.advance(200);
    store.renews[1]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    await settled();
    clock.jump(60_000);
    clock.turn();
    expect(lock.lost).toMatchObject({ reason: 'expired' });
  });
});

describe('the watchdog, when the lock is lost', () => {
  it.each([
    ['expired', 100],
    ['expired', 0],
    ['taken', 101],
  ] as const)('reports %s when the last token is %d and ours is 100', async (reason, lastToken) => {
    const { clock, store, watched, watchdog, timers } = startWatchdog();
    const lock = watched();
    await clock.advance(THIRD_MS);
    store.renews[0]!.reply([gone(lastToken)]);
    await settled();
    expect(lock.lost).toMatchObject({ reason, code: 'LOCK_LOST', key: 'k' });
    expect([lock.held, lock.signal.aborted]).toEqual([false, true]);
    expect([watchdog.size, timers.size]).toEqual([0, 0]);
  });

  it('gives each lock of a batch its own outcome', async () => {
    const { clock, store, watched } = startWatchdog();
    const locks = new Map(['a', 'b', 'c'].map((key) => [key, watched({ key })]));
    await clock.advance(THIRD_MS);
    const order = store.renews[0]!.request.map(({ key }) => key);
    const cause = new Error('down');
    store.renews[0]!.reply([gone(0), { outcome: 'renewed', remainingMs: LEASE_MS }, { outcome: 'unknown', cause }]);
    await settled();
    expect(order.map((key) => locks.get(key)!.held)).toEqual([false, true, true]);
  });

  it('fires the signal in the first turn after a pause longer than the lease, without a command', () => {
    const { clock, store, watched } = startWatchdog();
    const { signal } = watched();
    clock.jump(60_000);
    clock.turn();
    expect(signal.reason).toMatchObject({ reason: 'expired' });
    expect(store.renews).toHaveLength(0);
  });

  it('reports max-hold after maxHoldMs from the grant, despite its renewals', async () => {
    const { clock, watched, renewing } = startWatchdog();
    renewing();
    const lock = watched({ maxHoldMs: 5_000 });
    await clock.advance(4_999);
    expect(lock.held).toBe(true);
    await clock.advance(1);
    expect(lock.lost).toMatchObject({ reason: 'max-hold' });
  });

  it('ignores a reply that comes after the release', async () => {
    const { clock, store, watched, watchdog, reporter, timers } = startWatchdog();
    const lock = watched();
    await clock.advance(THIRD_MS);
    watchdog.unwatch(lock);
    await lock.release();
    store.renews[0]!.reply([gone(500)]);
    await settled();
    expect([lock.lost, timers.size, reporter.lines]).toEqual([null, 0, []]);
  });

  it('does not revive a lost lock when a reply comes late', async () => {
    const { clock, store, watched, timers } = startWatchdog();
    const lock = watched();
    await clock.advance(THIRD_MS);
    await clock.advance(LEASE_MS);
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: 60_000 }]);
    await settled();
    expect([lock.held, timers.size]).toEqual([false, 0]);
    expect(lock.lost).toMatchObject({ code: 'LOCK_LOST' });
  });
});
