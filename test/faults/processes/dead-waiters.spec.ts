import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { evalOf, lockCalls, plainWriter } from '../../support/redis/lock-commands.js';
import { deadlineOf, grantedAt, hashOf, queued } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';

type Admin = ReturnType<typeof openAdmin>;

/** Queues calls of a dead process: it sends nothing, and is not subscribed. */
async function addDead(admin: Admin, key: string, count: number, waiterLeaseMs: number, fair = true): Promise<void> {
  const pipeline = admin.pipeline();
  for (let i = 0; i < count; i++) {
    const asked = { ...plainWriter(key, `gone.${String(i).padStart(8, '0')}`), waiterLeaseMs, fair, holder: 'gone:1' };
    pipeline.eval(...evalOf(lockCalls.acquire(asked, 1_000, 0)));
  }
  const replies = await pipeline.exec();
  expect(replies!.map(([, reply]) => (reply as string[])[0])).toEqual(Array.from({ length: count }, () => 'busy'));
}

describe('waiters of a process that died', () => {
  afterEach(closeAll);

  it.each([
    [100, true],
    [1_000, true],
    [1_000, false],
  ])('%d of them do not keep a free lock from the waiter behind them (fair: %j)', async (count, fair) => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    // Longer than the test: nothing but their silence tells that they are dead.
    await addDead(admin, key, count, 60_000, fair);
    const waiting = b.locks.acquire(key, { waitMs: 25_000, fair });
    await eventually(async () => (await queued(admin, key)) === count + 1);
    await held.release();
    expect((await waiting).held).toBe(true);
  });

  it('do not keep a free lock from tryAcquire, or from an unfair call', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    await addDead(admin, key, 1_000, 60_000);
    await held.release();
    const lock = await b.locks.tryAcquire(key);
    expect(lock).not.toBeNull();
    await lock!.release();
    expect(await a.locks.tryAcquire(key, { fair: false })).not.toBeNull();
  });

  it('leave the queue behind a live waiter, some with each command', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = rejection(b.locks.acquire(key, { waitMs: 55_000 }));
    await eventually(async () => (await queued(admin, key)) === 1);
    await addDead(admin, key, 1_200, 1_000);
    // The one that lives asks every two seconds.
    await eventually(async () => (await queued(admin, key)) === 1, { timeoutMs: 40_000 });
    await b.close();
    await waiting;
    // A handle that nobody refers to is released by the garbage collection.
    expect(held.held).toBe(true);
    await held.release();
  }, 60_000);
});

describe('a waiter that cancels', () => {
  afterEach(closeAll);

  it('wakes the one behind it, which learns when the lease of a dead holder ends', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    await a.locks.acquire(key, { leaseMs: 6_000, renew: false });
    const deadline = await deadlineOf([admin], key);
    const patience = new AbortController();
    const first = rejection(a.locks.acquire(key, { signal: patience.signal, waitMs: 25_000 }));
    await eventually(async () => (await queued(admin, key)) === 1);
    const heard: string[] = [];
    const listener = openAdmin();
    await listener.psubscribe('lock:wake:*');
    listener.on('pmessage', (_pattern: string, _channel: string, message: string) =>
      heard.push(message.split(' ')[0]!),
    );
    const second = b.locks.acquire(key, { waitMs: 25_000 });
    await eventually(async () => (await queued(admin, key)) === 2);
    patience.abort();
    await first;
    await eventually(() => heard.includes('wake'));
    expect(grantedAt(await second)).toBeGreaterThanOrEqual(deadline);
  });
});

describe('the record of a lock', () => {
  afterEach(closeAll);

  it.each([
    ['a lock', {}],
    ['a lock for reading', { mode: 'read' as const }],
    ['a lock that stays taken for a while', { holdAtLeastMs: 1_000 }],
  ])('is kept for `keepMs` after the release, whatever the lease was: %s', async (_name, options) => {
    const [{ locks }, admin] = [await startApp({ keepMs: 60_000 }), openAdmin()];
    const key = freshKey();
    const lock = await locks.acquire(key, { ...options, leaseMs: 24 * 3_600_000 });
    expect(await admin.pttl(`lock:${key}`)).toBeGreaterThan(23 * 3_600_000);
    await lock.release();
    // And a half, since not each grant sets the time to live; a lock that stays taken ends a second later.
    expect(await admin.pttl(`lock:${key}`)).toBeLessThanOrEqual(91_000);
    expect(Object.keys(await hashOf(admin, key))).toContain('token');
  });

  it('is not kept for the long lease of a holder that has left while others hold the lock', async () => {
    const [{ locks }, admin] = [await startApp({ keepMs: 60_000 }), openAdmin()];
    const key = freshKey();
    const long = await locks.acquire(key, { mode: 'read', leaseMs: 24 * 3_600_000 });
    const short = await locks.acquire(key, { mode: 'read', leaseMs: 120_000 });
    await long.release();
    expect(await admin.pttl(`lock:${key}`)).toBeLessThanOrEqual(120_000 + 90_000);
    expect(short.held).toBe(true);
  });
});
