import { Logger } from '@nestjs/common';
import { type Lock, type LockLostError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { deleteLock } from '../support/stores.js';
import { itOnSingle } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';

/** Waits for the signal; gives why. */
async function lossOf(lock: Lock, timeoutMs = 20_000): Promise<LockLostError> {
  await eventually(() => lock.signal.aborted, { timeoutMs, message: 'The signal did not fire' });
  expect(lock.held).toBe(false);
  return lock.signal.reason as LockLostError;
}

/** Stops this thread, as a long computation does. */
function blockEventLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

afterEach(closeAll);

describe('promise 4: a loss is reported', () => {
  it('reports `expired` at the next renewal when the key was deleted', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const lock = await locks.acquire(key, { leaseMs: 5_000 });
    await deleteLock(key);
    const lost = await lossOf(lock, 5_000);
    expect(lost).toMatchObject({ name: 'LockLostError', code: 'LOCK_LOST', reason: 'expired', key, mode: 'write' });
    expect(await rejection(lock.extend(5_000))).toBe(lost);
  });

  it('reports `taken` when the key was deleted and another client was granted the lock', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    await deleteLock(key);
    const next = await b.locks.acquire(key);
    expect(await rejection(lock.extend(30_000))).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(await lossOf(lock)).toMatchObject({ reason: 'taken' });
    await lock.release();
    await next.extend(60_000);
  });

  it('rejects withLock with a LockLostError that carries the value of the work', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const value = { paid: true };
    const deletedDuring = locks.withLock(key, async () => {
      await deleteLock(key);
      return value;
    });
    const lost = await rejection<LockLostError>(deletedDuring);
    expect(lost).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(lost.result).toBe(value);
  });

  it('logs a loss once, even when the lock is released afterwards', async () => {
    const { locks, locker } = await startApp();
    const logged = jest.spyOn(Logger.prototype, 'error');
    const lock = await locks.acquire(freshKey(), { leaseMs: 60, renew: false });
    await lossOf(lock);
    await lock.release();
    await eventually(() => locker.live.releasing === 0);
    const messages = logged.mock.calls.map(([message]) => String(message)).filter((text) => text.includes(lock.key));
    logged.mockRestore();
    expect(messages).toHaveLength(1);
  });

  it('reports a loss after a blocked event loop: `held` at once, the signal in the first turn', async () => {
    const { locks } = await startApp();
    for (const renew of [true, false]) {
      const lock = await locks.acquire(freshKey(), { leaseMs: 300, renew });
      const { signal } = lock;
      blockEventLoop(400);
      expect(lock.held).toBe(false);
      await new Promise((resolve) => setTimeout(resolve, 0));
      expect(signal.aborted).toBe(true);
      expect(signal.reason).toMatchObject({ reason: 'expired' });
    }
  });
});

/** One holder loses its network while another caller waits. Returns when each learned of it, by the monotonic clock. */
async function loseToAnother(a: LockApp, b: LockApp, lose: () => void) {
  const key = freshKey();
  const lock = await a.locks.acquire(key, { leaseMs: 1_500 });
  let told = 0n;
  lock.signal.addEventListener('abort', () => (told = process.hrtime.bigint()));
  const next = b.locks.acquire(key, { waitMs: 20_000 }).then((taken) => {
    const granted = process.hrtime.bigint();
    return { taken, granted, heldThen: lock.held };
  });
  await eventually(async () => (await b.locks.inspect(key)).waiters === 1);
  lose();
  const { taken, granted, heldThen } = await next;
  await eventually(() => lock.signal.aborted);
  await taken.release();
  return { told, granted, heldThen };
}

/** Runs something and reports whether this process stood still meanwhile, so that it cannot determine what came first. */
async function withStalls<T extends { granted: bigint }>(run: () => Promise<T>) {
  let last = process.hrtime.bigint();
  const stalls: bigint[] = [];
  const look = () => {
    const now = process.hrtime.bigint();
    if (now - last > 12_000_000n) stalls.push(now);
    last = now;
  };
  const ticks = setInterval(look, 2);
  const value = await run();
  clearInterval(ticks);
  look();
  // The holder stops relying on its lease 17 ms before another can have the lock.
  return { value, stalled: stalls.some((until) => until > value.granted - 40_000_000n) };
}

describe('promise 4: the signal comes first', () => {
  itOnSingle.each(['blackhole', 'refuse'] as const)(
    'fires before another instance is granted the lock (%s)',
    async (fault) => {
      const b = await startApp();
      // Where one process plays both parts, a stall may deliver the grant before the timer: such a round proves nothing.
      for (;;) {
        const proxy = await proxyTo();
        const a = await startApp({ connection: proxy.url });
        const lose = () => (fault === 'refuse' ? disconnect(proxy) : proxy.blackhole(true));
        const { value, stalled } = await withStalls(() => loseToAnother(a, b, lose));
        expect(value.heldThen).toBe(false);
        if (stalled) continue;
        expect(value.told).toBeLessThan(value.granted);
        return;
      }
    },
    90_000,
  );
});
