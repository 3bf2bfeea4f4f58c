import { type INestApplicationContext } from '@nestjs/common';
import { grantedAt } from '../../support/redis/records.js';
import { gate } from '../../support/waiting/gate.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { expectDeadline, openStore } from '../support/stores.js';

/** Longer than a test waits. */
const MIN_MS = 120_000;

/** Whether the shutdown has begun, for a call that nobody else has to await. */
function closing(app: INestApplicationContext): { readonly done: Promise<void>; isDone(): boolean } {
  let over = false;
  const done = app.close().then(() => void (over = true));
  return { done, isDone: () => over };
}

describe('holdAtLeastMs and the end of the app', () => {
  afterEach(closeAll);

  it('keeps the key taken when the app closes while the work runs, and waits for the work only', async () => {
    const [a, b, store] = [await startApp({ drainMs: 60_000 }), await startApp(), openStore()];
    const [key, until, entered] = [freshKey(), gate(), gate()];
    const work = a.locks.withLock(key, { holdAtLeastMs: MIN_MS }, async (lock) => {
      entered.open();
      await until.opened;
      expect(lock.held).toBe(true);
      return lock;
    });
    await entered.opened;
    const close = closing(a.app);
    try {
      await expect(a.locks.tryAcquire(key)).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
      expect(close.isDone()).toBe(false);
    } finally {
      until.open();
    }
    const lock = await work;
    await close.done;
    await expectDeadline(store, key, grantedAt(lock) + MIN_MS);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });

  it('keeps the key taken when the app closes right after the work', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const work = a.locks.withLock(key, { holdAtLeastMs: MIN_MS }, (lock) => lock);
    const lock = await work;
    await a.close();
    await expectDeadline(store, key, grantedAt(lock) + MIN_MS);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });

  it('keeps the key taken when the work takes longer than drainMs', async () => {
    const [a, b, store] = [await startApp({ drainMs: 50 }), await startApp(), openStore()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { holdAtLeastMs: MIN_MS });
    await a.close();
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
    await expectDeadline(store, key, grantedAt(lock) + MIN_MS);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });

  it('admits others when the time is over, though the app is gone', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const first = await a.locks.withLock(key, { holdAtLeastMs: 1_500 }, (lock) => lock);
    await a.close();
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(grantedAt(first) + 1_500);
  });
});
