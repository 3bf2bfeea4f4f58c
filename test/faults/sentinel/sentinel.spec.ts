import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock, LockBusyError, LockStoreError, type RedisConnection } from '../../../lib/index.js';
import { makeFolder } from '../../../scripts/redis.mjs';
import { startSentinels } from '../../../scripts/topologies.mjs';
import { closeAll, closeLater, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { ownRedis, startAgain, startReplicated } from '../../support/redis/own-redis.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';
import { rejection } from '../../support/waiting/rejection.js';
import { LIBRARY } from '../../support/clients/library.js';
import { givenBySentinels, givenIoredis } from '../../support/redis/connections.js';
import { untilRenewed } from '../../support/waiting/waiters.js';

afterEach(closeAll);

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

/** Cuts the first sentinel and the running master off from the others, which promote another one. Apps reach all of them. */
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

  it('a lock is granted where `natMap` writes the address of the master in another form', async () => {
    const { connection, master } = await ownSentinels();
    const natMap = { [`127.0.0.1:${master.port}`]: { host: '::ffff:127.0.0.1', port: master.port } };
    const { locks } = await startApp({ connection: { ...connection, natMap } });
    await (await locks.acquire(freshKey(), { waitMs: 10_000 })).release();
  }, 60_000);

  it('a lock has one holder while the first sentinel still names the old master, which keeps running', async () => {
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
    // New connections also lead to the new master.
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

const PLANNED_LEASE_MS = 3_000;
/** How often a hold is renewed that is lost, at most: once a second, until a message comes. Sentinel demotes after 8 s or more. */
const RENEWALS = 5;
/** A sentinel that refuses subscriptions is asked every 2 s. */
const RENEWALS_UNTIL_ASKED = 7;
const PASSWORD = 'sentinel-password';

type Connection = Awaited<ReturnType<typeof startSentinels>>['connection'];

async function startPlanned(options: Parameters<typeof startSentinels>[0] = {}) {
  const topology = await ownSentinels(options);
  const sentinels = topology.sentinels.map(({ url }) => openAdmin(url));
  const replicas = topology.replicas.map(({ url }) => openAdmin(url));
  const masterOf = async (sentinel: Redis) =>
    Number(((await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[])[1]);
  /** Until a sentinel sends clients to another master; nothing is stopped. */
  const failOver = async (by: Redis = sentinels[0]!) => {
    await by.call('SENTINEL', 'FAILOVER', 'mymaster');
    await eventually(async () => (await masterOf(by)) !== topology.master.port, { timeoutMs: 30_000 });
  };
  return { ...topology, admins: { sentinels, replicas }, failOver };
}

type Topology = Awaited<ReturnType<typeof startPlanned>>;

/** Cuts a replica off from its master, as a slow network does; it is still fit to be promoted. */
const cutOff = (replica: Redis) => replica.call('REPLICAOF', '127.0.0.1', 1);

/** Has the sentinels never promote this replica. */
async function passOver({ admins }: Topology, index: number) {
  await admins.replicas[index]!.config('SET', 'replica-priority', 0);
  const priorities = async (sentinel: Redis) => {
    const replicas = (await sentinel.call('SENTINEL', 'REPLICAS', 'mymaster')) as string[][];
    return replicas.map((fields) => fields[fields.indexOf('slave-priority') + 1]);
  };
  // A sentinel looks every 10 s.
  await eventually(async () => (await priorities(admins.sentinels[0]!)).includes('0'), { timeoutMs: 30_000 });
}

/** A hold of which no server knows that may be promoted. */
async function holdUnknown(topology: Topology, connection: RedisConnection, minReplicas = 0) {
  const { locks } = await startApp({ connection, leaseMs: PLANNED_LEASE_MS, minReplicas });
  await (await locks.acquire(freshKey())).release();
  await cutOff(topology.admins.replicas[0]!);
  if (minReplicas === 0) await cutOff(topology.admins.replicas[1]!);
  return { locks, lock: await locks.acquire(freshKey()) };
}

type Hold = Pick<LockApp, 'locks'> & { readonly lock: Lock };

/** How long a hold is believed in after the next one was granted, by a new application. */
async function expectToldInTime({ locks, lock }: Hold, granted: Promise<Lock>, atMost = RENEWALS) {
  const next = await granted;
  let renewals = 0;
  locks.events.on('renewed', ({ key }) => void (key === lock.key && (renewals += 1)));
  await eventually(() => !lock.held, { timeoutMs: 30_000 });
  expect(renewals).toBeLessThanOrEqual(atMost);
  await next.release();
}

const newApp = async ({ connection }: Topology, key: string): Promise<Lock> =>
  (await startApp({ connection, leaseMs: PLANNED_LEASE_MS })).locks.acquire(key, { waitMs: 60_000 });

/** How many connections listen to a sentinel. */
async function listeners(sentinel: Redis): Promise<number> {
  const clients = (await sentinel.call('CLIENT', 'LIST')) as string;
  return clients.match(/ sub=[1-9]/g)?.length ?? 0;
}

/** node-redis has no such option. */
const DETECTING: [string, (connection: Connection) => RedisConnection] = [
  'a given client that detects failovers',
  (connection) => givenIoredis('', { ...connection, failoverDetector: true }),
];

const CLIENTS: [string, (connection: Connection) => RedisConnection][] = [
  ['its own connection', (connection) => connection],
  ['its own connection, which has one sentinel', ({ sentinels, name }) => ({ sentinels: [sentinels[1]!], name })],
];

describe('a planned failover that the old master notices last', () => {
  it.each(CLIENTS)(
    'admits no other caller while a holder that the new master knows has it: %s',
    async (_client, open) => {
      const topology = await startPlanned();
      const { locks } = await startApp({ connection: open(topology.connection), leaseMs: PLANNED_LEASE_MS });
      const lock = await locks.acquire(freshKey());
      const areKnown = () => Promise.all(topology.admins.replicas.map((replica) => replica.exists(`lock:${lock.key}`)));
      await eventually(async () => (await areKnown()).every((known) => known === 1));
      await topology.failOver();
      const granted = newApp(topology, lock.key);
      // On a machine that stands still for a lease, the next one may have it by right.
      const next = await Promise.race([granted, sleep(2 * PLANNED_LEASE_MS)]);
      if (next) return expectToldInTime({ locks, lock }, granted);
      expect(lock.held).toBe(true);
      await lock.release();
      await (await granted).release();
    },
    120_000,
  );

  it.each([...CLIENTS, ...(LIBRARY === 'node-redis' ? [] : [DETECTING])])(
    'notifies a holder that the new master does not know: %s',
    async (_client, open) => {
      const topology = await startPlanned();
      const hold = await holdUnknown(topology, open(topology.connection));
      await topology.failOver();
      await expectToldInTime(hold, newApp(topology, hold.lock.key));
    },
    120_000,
  );

  it('notifies a holder whose lock only another replica confirmed', async () => {
    const topology = await startPlanned();
    await passOver(topology, 1);
    const hold = await holdUnknown(topology, topology.connection, 1);
    await topology.failOver();
    await expectToldInTime(hold, newApp(topology, hold.lock.key));
  }, 120_000);

  it('is noticed through the last live sentinel', async () => {
    const topology = await startPlanned();
    const hold = await holdUnknown(topology, givenBySentinels(topology.connection));
    await topology.sentinels[0]!.kill();
    await topology.sentinels[1]!.kill('SIGSTOP');
    await topology.failOver(topology.admins.sentinels[2]);
    await expectToldInTime(hold, newApp(topology, hold.lock.key), RENEWALS + 1);
  }, 120_000);

  it('is noticed where servers are announced by host name', async () => {
    const topology = await startPlanned({ host: 'localhost' });
    const hold = await holdUnknown(topology, topology.connection);
    const { locks } = await startApp({ connection: givenBySentinels(topology.connection), leaseMs: PLANNED_LEASE_MS });
    await (await locks.acquire(freshKey())).release();
    await topology.failOver();
    await expectToldInTime(hold, newApp(topology, hold.lock.key));
    await (await locks.acquire(freshKey(), { waitMs: 10_000 })).release();
  }, 120_000);

  it('is noticed after all sentinels were away, and locks work without them', async () => {
    const topology = await startPlanned();
    const { locks } = await startApp({ connection: topology.connection, leaseMs: PLANNED_LEASE_MS });
    const other = await startApp({ connection: topology.connection, leaseMs: PLANNED_LEASE_MS });
    const lock = await locks.acquire(freshKey());
    const waiting = other.locks.acquire(lock.key, { waitMs: 60_000 });
    await Promise.all(topology.sentinels.map((sentinel) => sentinel.kill()));
    await untilRenewed({ locks }, 3, { timeoutMs: 2 * PLANNED_LEASE_MS });
    await lock.release();
    await (await waiting).release();
    await Promise.all(topology.sentinels.map(startAgain));
    await eventually(async () => (await Promise.all(topology.admins.sentinels.map(listeners))).join() === '2,2,2');
    const hold = await holdUnknown(topology, topology.connection);
    await eventually(async () => topology.failOver().then(() => true), { timeoutMs: 40_000 });
    await expectToldInTime(hold, newApp(topology, hold.lock.key));
  }, 120_000);

  it('is noticed by polling where the Sentinel user may not subscribe', async () => {
    const topology = await startPlanned();
    const rights = ['+sentinel|get-master-addr-by-name', '+sentinel|sentinels'];
    for (const sentinel of topology.admins.sentinels) {
      await sentinel.call('ACL', 'SETUSER', 'locks', 'on', `>${PASSWORD}`, 'resetchannels', '-@all', ...rights);
    }
    const user = { sentinelUsername: 'locks', sentinelPassword: PASSWORD };
    const hold = await holdUnknown(topology, { ...topology.connection, ...user });
    await topology.failOver();
    await expectToldInTime(hold, newApp(topology, hold.lock.key), RENEWALS_UNTIL_ASKED);
  }, 120_000);

  it('is watched for until the application closes', async () => {
    const topology = await startPlanned();
    const { sentinels } = topology.admins;
    const app = await startApp({ connection: topology.connection, leaseMs: PLANNED_LEASE_MS, minReplicas: 1 });
    await (await app.locks.acquire(freshKey())).release();
    const counts = () => Promise.all(sentinels.map(listeners));
    await eventually(async () => (await counts()).join() === '1,1,1');
    for (const sentinel of sentinels) await sentinel.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => (await counts()).join() === '1,1,1');
    await app.close();
    await eventually(async () => (await counts()).join() === '0,0,0');
  }, 60_000);
});
