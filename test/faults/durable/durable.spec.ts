import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockStoreError } from '../../../lib/index.js';
import { ensureRedisServer } from '../../../scripts/programs.mjs';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itLikeIoredis } from '../../support/clients/library.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { hashOf } from '../../support/redis/records.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const version = execFileSync(ensureRedisServer(), ['--version'], { encoding: 'utf8' });
/** WAITAOF came with Redis 7.2; all versions of Valkey have it. */
const hasWaitAof = version.startsWith('Valkey') || /v=(7\.[2-9]|[89]|\d\d)/.test(version);
const itWithWaitAof = hasWaitAof ? it : it.skip;
const itWithout = hasWaitAof ? it.skip : it;

/** A server with an append-only file in a separate folder. */
function withAof(appendfsync: 'always' | 'everysec' | 'no') {
  const folder = mkdtempSync(join(tmpdir(), 'durable-'));
  closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
  return ownRedis(['--dir', folder, '--appendonly', 'yes', '--appendfsync', appendfsync]);
}

describe("durable: 'aof'", () => {
  itWithWaitAof.each([
    ['always', 500],
    ['everysec', 10_000],
  ] as const)('grants what is on the disk, to waiters, too (appendfsync %s)', async (appendfsync, replicaTimeoutMs) => {
    const { url, admin } = await withAof(appendfsync);
    const options = { connection: url, durable: 'aof', replicaTimeoutMs } as const;
    const [a, b] = [await startApp(options), await startApp(options)];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { waitMs: 30_000 });
    const waiting = b.locks.acquire(key, { waitMs: 30_000 });
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect((await hashOf(admin, key))['token']).toBe(String(next.fencingToken));
    // One for each grant, at least; others ask whether the server has it.
    const calls = /cmdstat_waitaof:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1];
    expect(Number(calls)).toBeGreaterThanOrEqual(2);
    await next.release();
  });

  itWithWaitAof('gives back what did not reach the disk in time, and reports it', async () => {
    // The operating system writes it some time later, and the server does not learn when.
    const { url } = await withAof('no');
    const { locks } = await startApp({ connection: url, durable: 'aof', replicaTimeoutMs: 100 });
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key, { waitMs: 500 }));
    expect(error.message).toContain(`The disk did not confirm the lock "${key}" within \`replicaTimeoutMs\``);
    await eventually(async () => !(await locks.isLocked(key)));
  });

  itWithWaitAof('refuses locks on a server without an append-only file', async () => {
    const { url } = await ownRedis();
    const { locks } = await startApp({ connection: url, durable: 'aof' });
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key));
    expect(error.message).toMatch(/The disk did not confirm the lock .*appendonly is disabled/);
    expect(error.retryable).toBe(false);
    await eventually(async () => !(await locks.isLocked(key)));
  });

  itWithout('refuses locks on a server without WAITAOF', async () => {
    const { url } = await withAof('always');
    const { locks } = await startApp({ connection: url, durable: 'aof' });
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key));
    expect(error.message).toMatch(/The disk did not confirm the lock .*unknown command.*It was given back/);
    expect(error.retryable).toBe(false);
    await eventually(async () => !(await locks.isLocked(key)));
  });

  itLikeIoredis('is refused with another value, and in memory', async () => {
    const start = (options: object) => rejection(startApp(options));
    expect((await start({ connection: 'redis://127.0.0.1:1', durable: 'rdb' })).message).toMatch(/`durable`.*'aof'/);
    expect((await start({ connection: 'memory', durable: 'aof' })).message).toMatch(/`durable` to be left out/);
  });
});
