import { type RedisConnection } from '../../../lib/index.js';
import { startSentinels } from '../../../scripts/topologies.mjs';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { withGiven } from '../../support/clients/library.js';
import { givenBySentinels } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf } from '../../support/redis/records.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';

const LEASE_MS = 20_000;
const FAILOVER_MS = 20_000;

type Sentinels = Awaited<ReturnType<typeof startSentinels>>;

async function start(open: (connection: Sentinels['connection']) => RedisConnection = (connection) => connection) {
  const topology = await ownSentinels();
  const apps = [await startApp({ connection: open(topology.connection) })];
  apps.push(await startApp({ connection: open(topology.connection) }));
  const sentinel = openAdmin(topology.sentinels[0]!.url);
  const masterPort = async () =>
    Number(((await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[])[1]);
  const untilMoved = (from: number) =>
    eventually(async () => (await masterPort()) !== from, { timeoutMs: FAILOVER_MS });
  return { ...topology, apps: apps as [LockApp, LockApp], sentinel, masterPort, untilMoved };
}

const CLIENTS: [string, (connection: Sentinels['connection']) => RedisConnection][] = [
  ['a connection of its own', (connection) => connection],
  ['a given client', givenBySentinels],
];

const FAILOVERS: [string, (topology: Awaited<ReturnType<typeof start>>) => Promise<unknown>][] = [
  ['the master dies', ({ master }) => master.kill()],
  ['the master hangs', ({ master }) => master.kill('SIGSTOP')],
  ['an operator asks for it', ({ sentinel }) => sentinel.call('SENTINEL', 'FAILOVER', 'mymaster')],
];

describe('behind sentinels', () => {
  afterEach(closeAll);

  describe.each(FAILOVERS)('when %s', (_what, failOver) => {
    it.each(withGiven(CLIENTS))(
      'holds are kept and waiters are served: %s',
      async (_client, open) => {
        const topology = await start(open);
        const [a, b] = topology.apps;
        const key = freshKey();
        const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
        const waiting = b.locks.acquire(key, { leaseMs: LEASE_MS, waitMs: 60_000 });
        await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
        for (const { url } of topology.replicas) {
          const replica = openAdmin(url);
          const fields = async () => Object.keys(await replica.hgetall(`lock:${key}`));
          await eventually(async () => (await fields()).some((name) => name.startsWith('queue:')));
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
      },
      90_000,
    );
  });
});
