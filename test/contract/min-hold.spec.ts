import { eventually } from '../support/eventually.js';
import { deadlineOf, grantedAt, queued, rejection } from '../support/faults.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/lock-app.js';

describe('holdAtLeastMs', () => {
  afterEach(closeAll);

  it('keeps the key taken after the work ended, and lets the waiter in when it is over', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const first = await a.locks.withLock(key, { holdAtLeastMs: 5_000 }, (lock) => lock);
    expect(first.held).toBe(false);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await a.locks.tryAcquire(key)).toBeNull();
    const until = await deadlineOf(admin, key);
    expect(until).toBe(grantedAt(first) + 5_000);
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(until);
    expect(next.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('keeps it taken after an error of the work, too', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const error = new Error('from the work');
    const work = a.locks.withLock(key, { holdAtLeastMs: 20_000 }, () => Promise.reject(error));
    expect(await rejection(work)).toBe(error);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await a.locks.isLocked(key)).toBe(true);
  });

  it('lets a waiter in that came during the work, not before the time is over', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const first = await a.locks.acquire(key, { holdAtLeastMs: 1_000 });
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await eventually(async () => (await queued(admin, key)) === 1);
    await first.release();
    expect(grantedAt(await next)).toBeGreaterThanOrEqual(grantedAt(first) + 1_000);
  });

  it('frees the key at once when the work took longer', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { holdAtLeastMs: 50 });
    await eventually(async () => Number((await admin.time())[0]) * 1_000 > grantedAt(lock) + 50);
    await lock.release();
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('keeps the key for longer than the lease when that is shorter', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 5_000, holdAtLeastMs: 30_000 });
    await lock.release();
    expect(await deadlineOf(admin, key)).toBe(grantedAt(lock) + 30_000);
    expect(await b.locks.tryAcquire(key)).toBeNull();
  });
});
