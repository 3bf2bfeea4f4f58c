import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockStoreError, type RedisLockModuleOptions } from '../../../lib/index.js';
import { ensureRedisServer } from '../../../scripts/programs.mjs';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itLikeIoredis } from '../../support/clients/library.js';
import { ownRedis, startAgain } from '../../support/redis/own-redis.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { hashOf } from '../../support/redis/records.js';
import { eventually, eventuallyPasses } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const version = execFileSync(ensureRedisServer(), ['--version'], { encoding: 'utf8' });
/** WAITAOF came with Redis 7.2; all versions of Valkey have it. */
const hasWaitAof = version.startsWith('Valkey') || /v=(7\.[2-9]|[89]|\d\d)/.test(version);
const itWithWaitAof = hasWaitAof ? it : it.skip;
const itWithout = hasWaitAof ? it.skip : it;

/** The arguments of a server with an append-only file in a separate folder, which outlives the server. */
function aofArgs(appendfsync: 'always' | 'everysec' | 'no'): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'durable-'));
  closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
  return ['--dir', folder, '--appendonly', 'yes', '--appendfsync', appendfsync];
}

const withAof = (appendfsync: 'always' | 'everysec' | 'no') => ownRedis(aofArgs(appendfsync));

/** How long a disk of this machine may take. */
const PATIENT = { waitMs: 30_000 };

/** Kills all servers while `a` holds a lock: once they are back, the lock is not free, and ends when `a` releases it. */
async function expectKept(connection: RedisLockModuleOptions['connection'], servers: readonly StartedRedis[]) {
  const options = { connection, durable: 'aof', replicaTimeoutMs: 10_000 } as const;
  const [a, b] = [await startApp(options), await startApp(options)];
  const key = freshKey();
  const lock = await a.locks.acquire(key, { ...PATIENT, leaseMs: 60_000 });
  await Promise.all(servers.map((server) => server.kill()));
  await Promise.all(servers.map(startAgain));
  await eventuallyPasses(async () => expect(await b.locks.tryAcquire(key)).toBeNull(), { timeoutMs: 30_000 });
  expect(lock.held).toBe(true);
  await lock.release();
  const next = await b.locks.acquire(key, PATIENT);
  expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
}

describe("durable: 'aof'", () => {
  itWithWaitAof.each([
    ['always', 500],
    ['everysec', 10_000],
  ] as const)('grants what is on the disk, also to waiters (appendfsync %s)', async (appendfsync, replicaTimeoutMs) => {
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

  itWithWaitAof('keeps a lock over a crash of its server', async () => {
    const server = await withAof('always');
    await expectKept(server.url, [server]);
  });

  itWithWaitAof('keeps a lock over a crash of all masters of a quorum', async () => {
    const servers = await Promise.all(['always', 'always', 'always'].map(() => withAof('always')));
    await expectKept(
      servers.map(({ url }) => url),
      servers,
    );
  });

  itWithWaitAof('keeps a lock over a crash of all nodes of a cluster', async () => {
    const { connection, masters } = await ownCluster({
      replicas: 0,
      nodeTimeoutMs: 30_000,
      argsOf: () => aofArgs('always'),
    });
    await expectKept(connection, masters);
  });

  itWithWaitAof('needs the disks of a majority of a quorum', async () => {
    const start = async (policies: readonly ('always' | 'no')[], replicaTimeoutMs: number) => {
      const servers = await Promise.all(policies.map(withAof));
      return startApp({ connection: servers.map(({ url }) => url), durable: 'aof', replicaTimeoutMs });
    };
    const two = await start(['always', 'always', 'no'], 1_000);
    await (await two.locks.acquire(freshKey(), PATIENT)).release();
    const one = await start(['always', 'no', 'no'], 100);
    await eventuallyPasses(async () => {
      const error = await rejection<LockStoreError>(one.locks.acquire(freshKey(), { waitMs: 1_000 }));
      const unconfirmed = error.nodes!.filter(({ detail }) => detail.includes('The disk did not confirm'));
      expect(unconfirmed).toHaveLength(2);
    });
  });

  itWithWaitAof('gives back on a cluster what did not reach the disk of the master', async () => {
    const cluster = await ownCluster({ replicas: 0, nodeTimeoutMs: 30_000, argsOf: () => aofArgs('no') });
    const { locks } = await startApp({ connection: cluster.connection, durable: 'aof', replicaTimeoutMs: 100 });
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key, { waitMs: 1_000 }));
    expect(error.message).toContain(`The disk did not confirm the lock "${key}" within \`replicaTimeoutMs\``);
    await eventually(async () => !(await locks.isLocked(key)));
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
