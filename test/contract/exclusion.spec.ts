import { LockBusyError, Locked, lockKey, LockWaitTimeoutError } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { rejection } from '../support/waiting/rejection.js';
import { gate } from '../support/waiting/gate.js';

class Orders {
  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(_id: string): Promise<void> {}
}

describe('promise 1: exclusion', () => {
  afterEach(closeAll);

  it('admits one instance at a time', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const held = gate();
    const log: string[] = [];
    const first = a.locks.withLock(key, async () => {
      log.push('a in');
      await held.opened;
      log.push('a out');
    });
    await eventually(() => log.length === 1);
    const second = b.locks.withLock(key, () => void log.push('b in'));
    await untilWaiting(a, key);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    held.open();
    await Promise.all([first, second]);
    expect(log).toEqual(['a in', 'a out', 'b in']);
  });

  it.each<[string, (id: string) => string]>([
    ['a template literal', (id) => `order:${id}`],
    ['the tag', (id) => lockKey`order:${id}`],
  ])(
    'is that of a template with one placeholder for a key that %s makes, also with `:` and `%%` inside',
    async (_how, keyOf) => {
      const { app, locks } = await startApp({}, { providers: [Orders] });
      const id = `eu:${freshKey()}%`;
      const held = await locks.acquire(keyOf(id));
      expect(await locks.isLocked(`order:${id}`)).toBe(true);
      expect(await rejection(app.get(Orders).charge(id))).toBeInstanceOf(LockBusyError);
      await held.release();
    },
  );

  it('leaves the event loop free while a call retries a busy lock again and again', async () => {
    const { locks } = await startApp();
    const held = await locks.acquire(freshKey());
    const other = { isDone: false };
    setImmediate(() => (other.isDone = true));
    for (let i = 0; i < 5_000 && !other.isDone; i += 1) expect(await locks.tryAcquire(held.key)).toBeNull();
    expect(other.isDone).toBe(true);
    await held.release();
  });

  it('rejects with LockWaitTimeoutError after waitMs, naming the holder, and with LockBusyError when it is 0', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const error = await b.locks.acquire(key, { waitMs: 60 }).catch((thrown: unknown) => thrown as LockWaitTimeoutError);
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key, mode: 'write' });
    expect((error as LockWaitTimeoutError).waitedMs).toBeGreaterThanOrEqual(59);
    expect((error as Error).message).toContain(`:${process.pid}`);
    await expect(b.locks.acquire(key, { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    await held.release();
  });
});
