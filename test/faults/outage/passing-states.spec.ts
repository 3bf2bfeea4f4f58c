import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockStoreError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilRenewed } from '../../support/waiting/waiters.js';

const PATIENT = { waitMs: 20_000 };

async function expectRefused(locks: LockApp['locks'], answer: string): Promise<void> {
  const error = await eventually(async () => {
    const one = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 300 }));
    return one.message.includes(answer) && one;
  });
  expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
}

describe('a server in a temporary state', () => {
  afterEach(closeAll);

  it('is retried when it became a replica and kept its connections (READONLY)', async () => {
    const [server, other] = [await ownRedis(), await ownRedis()];
    const { locks } = await startApp({ connection: server.url });
    await locks.withLock(freshKey(), () => undefined);
    await server.admin.call('REPLICAOF', '127.0.0.1', other.port);
    await eventually(async () => (await server.admin.info('replication')).includes('master_link_status:up'));
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error.message).toContain('READONLY');
    expect(error.retryable).toBe(true);
    const waiting = locks.acquire(freshKey(), PATIENT);
    await server.admin.call('REPLICAOF', 'NO', 'ONE');
    await (await waiting).release();
  });

  it('is retried while it loads its data (LOADING)', async () => {
    // Between two keys it answers only after this number of bytes; and it loads the data of a master.
    const full = await ownRedis(['--rdbcompression', 'no']);
    for (let i = 0; i < 60; i += 1) await full.admin.setrange(`filler:${i}`, 2 ** 20 - 1, 'x');
    const server = await ownRedis(['--key-load-delay', '80000']);
    const { locks } = await startApp({ connection: server.url });
    await locks.withLock(freshKey(), () => undefined);
    await server.admin.call('REPLICAOF', '127.0.0.1', full.port);
    const isLoading = () =>
      server.admin.get('filler:1').then(
        () => false,
        (error: Error) => error.message.includes('LOADING'),
      );
    await eventually(isLoading);
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 0 }));
    expect(error.message).toContain('LOADING');
    const waiting = locks.acquire(freshKey(), PATIENT);
    await eventually(async () => (await server.admin.call('REPLICAOF', 'NO', 'ONE')) === 'OK');
    await (await waiting).release();
  });

  it('is retried while too few replicas are connected (NOREPLICAS)', async () => {
    const { admin, url } = await ownRedis();
    const { locks } = await startApp({ connection: url });
    await locks.withLock(freshKey(), () => undefined);
    await admin.config('SET', 'min-replicas-to-write', 1);
    await expectRefused(locks, 'NOREPLICAS');
    const waiting = locks.acquire(freshKey(), PATIENT);
    await admin.config('SET', 'min-replicas-to-write', 0);
    await (await waiting).release();
  });

  it('is retried while it cannot save its data (MISCONF)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'no-disk-'));
    closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
    const { admin, url } = await ownRedis(['--dir', folder, '--save', '3600 1']);
    const { locks } = await startApp({ connection: url });
    const held = await locks.acquire(freshKey());
    rmSync(folder, { recursive: true });
    await admin.bgsave();
    await eventually(async () => (await admin.info('persistence')).includes('rdb_last_bgsave_status:err'));
    expect(existsSync(folder)).toBe(false);
    await expectRefused(locks, 'MISCONF');
    await expect(held.extend(30_000)).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(held.held).toBe(true);
    const waiting = locks.acquire(freshKey(), PATIENT);
    await admin.config('SET', 'stop-writes-on-bgsave-error', 'no');
    await (await waiting).release();
    await held.extend(30_000);
  });

  it('is retried while a script of another client blocks it (BUSY)', async () => {
    const { admin, url } = await ownRedis(['--busy-reply-threshold', '50']);
    const { locks } = await startApp({ connection: url });
    const killer = openAdmin(url);
    await killer.ping();
    const held = await locks.acquire(freshKey());
    const endless = admin.eval('while true do end', 0).catch(() => undefined);
    await expectRefused(locks, 'BUSY');
    const waiting = locks.acquire(freshKey(), PATIENT);
    await killer.script('KILL');
    await endless;
    await (await waiting).release();
    expect(held.held).toBe(true);
  });

  it('is retried while it accepts no more clients (maxclients), and renews what is held', async () => {
    const { admin, url } = await ownRedis();
    const first = await startApp({ connection: url });
    const held = await first.locks.acquire(freshKey(), { leaseMs: 4_000 });
    const used = ((await admin.client('LIST')) as string).trim().split('\n').length;
    await admin.config('SET', 'maxclients', used);
    const refused = await startApp({ connection: url });
    const error = await rejection<LockStoreError>(refused.locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    const waiting = refused.locks.acquire(freshKey(), PATIENT);
    await untilRenewed(first, 3);
    await admin.config('SET', 'maxclients', 1_000);
    await (await waiting).release();
    expect(held.held).toBe(true);
  });

  it('is waited for while clients are paused (CLIENT PAUSE)', async () => {
    const { admin, url } = await ownRedis();
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const next = b.locks.acquire(key, PATIENT);
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    await admin.call('CLIENT', 'PAUSE', '1500', 'WRITE');
    await held.release();
    const lock = await next;
    expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: lock.fencingToken }]);
    await lock.release();
    await eventually(() => a.locker.live.releasing === 0 && b.locker.live.releasing === 0);
    expect(await a.locks.isLocked(key)).toBe(false);
  });
});
