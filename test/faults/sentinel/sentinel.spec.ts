import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Redis } from 'ioredis';
import { LockBusyError, LockStoreError } from '../../../lib/index.js';
import { makeFolder } from '../../../scripts/redis.mjs';
import { startSentinels } from '../../../scripts/topologies.mjs';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { ownRedis, startReplicated } from '../../support/redis/own-redis.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';
import { rejection } from '../../support/waiting/rejection.js';

const LEASE_MS = 20_000;
const FAILOVER_MS = 20_000;

type Sentinels = Awaited<ReturnType<typeof startSentinels>>;

async function start() {
  const topology = await ownSentinels();
  const apps = [await startApp({ connection: topology.connection })];
  apps.push(await startApp({ connection: topology.connection }));
  const sentinel = openAdmin(topology.sentinels[0]!.url);
  const masterPort = async () =>
    Number(((await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[])[1]);
  const untilMoved = (from: number) =>
    eventually(async () => (await masterPort()) !== from, { timeoutMs: FAILOVER_MS });
  return { ...topology, apps: apps as [LockApp, LockApp], sentinel, masterPort, untilMoved };
}

const FAILOVERS: [string, (topology: Awaited<ReturnType<typeof start>>) => Promise<unknown>][] = [
  ['the master dies', ({ master }) => master.kill()],
  ['the master hangs', ({ master }) => master.kill('SIGSTOP')],
  ['an operator asks for it', ({ sentinel }) => sentinel.call('SENTINEL', 'FAILOVER', 'mymaster')],
];

/** Cuts the first sentinel and the master, which goes on, off from the others, which promote another one. Apps reach all of them. */
async function partition({ connection, master, replicas, sentinels }: Sentinels) {
  const [stale, ...others] = sentinels.map(({ url }) => openAdmin(url));
  const servers = [master, ...replicas].map(({ url }) => openAdmin(url));
  const setDefault = (at: Redis, ...rules: string[]) => at.call('ACL', 'SETUSER', 'default', ...rules);
  await setDefault(stale!, '-publish');
  for (const server of servers.slice(1))
    await server.call('ACL', 'SETUSER', 'sentinel', 'on', '>pw', '+@all', '&*', '~*');
  for (const server of servers) await setDefault(server, 'resetchannels', '&lock:*', '-replicaof', '-slaveof');
  for (const [name, value] of Object.entries({ 'auth-user': 'sentinel', 'auth-pass': 'pw' })) {
    for (const one of others) await one.call('SENTINEL', 'SET', connection.name, name, value);
  }
  const masterOf = async (one: Redis) =>
    Number(((await one.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[])[1]);
  const haveMoved = async () => (await Promise.all(others.map(masterOf))).every((port) => port !== master.port);
  // Both must vote for one of them; when each votes for itself, they try again after some seconds.
  await eventually(haveMoved, { timeoutMs: 3 * FAILOVER_MS });
  expect(await masterOf(stale!)).toBe(master.port);
  expect(await servers[0]!.info('replication')).toContain('role:master');
}

describe('behind sentinels', () => {
  afterEach(closeAll);

  it('no lock is granted by a replica that a sentinel names, although it takes writes, until it is the master', async () => {
    const { replicas } = await startReplicated();
    const [{ admin, port }] = replicas as [(typeof replicas)[0]];
    await admin.config('SET', 'replica-read-only', 'no');
    const folder = makeFolder();
    closeLater({ close: async () => folder.remove() });
    const file = join(folder.path, 'sentinel.conf');
    writeFileSync(file, `sentinel monitor mymaster 127.0.0.1 ${port} 1\n`);
    const sentinel = await ownRedis([file, '--sentinel', '--dir', folder.path]);
    const connection = { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'mymaster' };
    const { locks } = await startApp({ connection });
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key, { waitMs: 500 }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.retryable).toBe(true);
    expect(await admin.exists(`lock:${key}`)).toBe(0);
    await admin.call('REPLICAOF', 'NO', 'ONE');
    await (await locks.acquire(key, { waitMs: 20_000 })).release();
  }, 60_000);

  it('a lock has one holder while the first sentinel still names the old master, which goes on', async () => {
    const topology = await ownSentinels();
    const before = await startApp({ connection: topology.connection });
    await (await before.locks.acquire(freshKey())).release();
    await partition(topology);
    const [stale, ...others] = topology.connection.sentinels;
    const elsewhere = { ...topology.connection, sentinels: [...others, stale!] };
    const holder = await startApp({ connection: elsewhere });
    const after = await startApp({ connection: topology.connection });
    const again = async (): Promise<void> => {
      const lock = await holder.locks.acquire(freshKey());
      for (const { locks } of [before, after]) {
        expect(await rejection(locks.acquire(lock.key, { waitMs: 0 }))).toBeInstanceOf(LockBusyError);
      }
      await lock.release();
    };
    await again();
    // New connections lead to the new master, too.
    for (const port of topology.replicas.map((one) => one.port)) {
      await openAdmin(`redis://127.0.0.1:${port}`).call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    await again();
  }, 120_000);

  describe.each(FAILOVERS)('when %s', (_what, failOver) => {
    it('holds are kept and waiters are served', async () => {
      const topology = await start();
      const [a, b] = topology.apps;
      const key = freshKey();
      const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
      const waiting = b.locks.acquire(key, { leaseMs: LEASE_MS, waitMs: 60_000 });
      await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
      for (const { url } of topology.replicas) {
        const replica = openAdmin(url);
        await eventually(async () => (await queued(replica, key)) === 1);
      }
      await failOver(topology);
      await topology.untilMoved(topology.master.port);
      const promoted = openAdmin(`redis://127.0.0.1:${await topology.masterPort()}`);
      await eventually(async () => (await promoted.info('replication')).includes('role:master'));
      // Wait for a renewal on the new master: a release by a client that still talks to the old master would be lost.
      const held = async () =>
        Object.entries(await hashOf(promoted, key)).find(([name]) => name.startsWith('hold:'))?.[1];
      const before = await held();
      await eventually(async () => (await held()) !== before, { timeoutMs: LEASE_MS });
      expect(lock.held).toBe(true);
      await lock.release();
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
      const again = b.locks.acquire(key, { waitMs: 10_000 });
      await (await again).release();
    }, 90_000);
  });
});
