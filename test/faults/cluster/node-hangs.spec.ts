import { type ClusterOptions } from 'ioredis';
import { type RedisConnection } from '../../../lib/index.js';
import { type RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { type StartedCluster, startCluster } from '../../../scripts/topologies.mjs';
import { keyOn } from '../../support/redis/cluster-slots.js';
import { withGiven } from '../../support/clients/library.js';
import { givenCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, closeLater, openAdmin, startApp } from '../../support/apps/lock-app.js';

const LEASE_MS = 8_000;

async function start(options: Parameters<typeof startCluster>[0]) {
  const cluster = await startCluster(options);
  closeLater({ close: () => cluster.stop() });
  const seeds = cluster.connection.cluster.slice(0, 1);
  const seed = cluster.masters.find(({ port }) => port === seeds[0]!.port)!;
  return { ...cluster, seeds, seed };
}

const CONNECTIONS: [string, (seeds: StartedCluster['connection']['cluster']) => RedisConnection][] = [
  ['a given cluster', (seeds) => givenCluster(seeds)],
  ['a cluster of its own', (seeds) => ({ cluster: seeds })],
];

/** Whether a lock on a master can be had, now or within some time. */
const works = ({ locks }: LockApp, n: number, waitMs = 20_000): Promise<boolean> =>
  locks.withLock(keyOn(n), { waitMs, leaseMs: LEASE_MS }, () => true).catch(() => false);

async function hang({ pid }: StartedRedis, during: () => Promise<void>): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  try {
    await during();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

describe('a hanging node of a cluster that is the only one in the options', () => {
  afterEach(closeAll);

  it.each(withGiven(CONNECTIONS))(
    'does not affect locks on the other nodes (%s)',
    async (_name, open) => {
      // Nobody takes over.
      const { seeds, seed } = await start({ replicas: 0, nodeTimeoutMs: 60_000 });
      const app = await startApp({ connection: open(seeds) });
      for (const n of [0, 1, 2]) expect(await works(app, n)).toBe(true);
      const held = await Promise.all([1, 2].map((n) => app.locks.acquire(keyOn(n), { leaseMs: LEASE_MS })));
      const lost: string[] = [];
      app.locks.events.on('lost', ({ key }) => lost.push(key));
      await hang(seed, async () => {
        const until = performance.now() + LEASE_MS + 2_000;
        const onSeed: Promise<unknown>[] = [];
        while (performance.now() < until) {
          onSeed.push(works(app, 0, 0));
          expect([await works(app, 1), await works(app, 2)]).toEqual([true, true]);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        expect(await Promise.all(onSeed)).not.toContain(true);
        expect([held.map((lock) => lock.held), lost]).toEqual([[true, true], []]);
      });
      await eventually(() => works(app, 0), { timeoutMs: 40_000 });
      for (const lock of held) await lock.release();
    },
    90_000,
  );

  it.each(withGiven(CONNECTIONS))(
    'is replaced by the replica that takes over (%s)',
    async (_name, open) => {
      const { seeds, seed } = await start({ replicas: 1 });
      const app = await startApp({ connection: open(seeds) });
      for (const n of [0, 1, 2]) expect(await works(app, n)).toBe(true);
      await hang(seed, async () => {
        await eventually(() => works(app, 0), { timeoutMs: 60_000 });
        const lock = await app.locks.acquire(keyOn(0), { leaseMs: 2_000 });
        let renewals = 0;
        app.locks.events.on('renewed', () => (renewals += 1));
        await eventually(() => renewals >= 2);
        await lock.release();
      });
      for (const n of [0, 1, 2]) await eventually(() => works(app, n));
    },
    120_000,
  );
});

describe('the epoch of the commands of a cluster', () => {
  afterEach(closeAll);

  const OPTIONS: [string, ClusterOptions | undefined][] = [
    ['a cluster of its own', undefined],
    ['a given cluster', {}],
    ['a given cluster whose nodes connect again by themselves', { clusterNodeRetryStrategy: () => 20 }],
  ];

  it.each(withGiven(OPTIONS))('changes when the connection to any node is lost (%s)', async (_name, options) => {
    const cluster = await startCluster({ replicas: 0 });
    closeLater({ close: () => cluster.stop() });
    const { masters, connection } = cluster;
    const given = options && givenCluster(connection.cluster, options);
    const app = await startApp({ connection: given ?? connection });
    const { commands } = app.app.get<RedisLockStore>(LOCK_STORE);
    for (const [n, { url }] of masters.entries()) {
      expect(await works(app, n)).toBe(true);
      const { epoch } = commands;
      await openAdmin(url).call('CLIENT', 'KILL', 'TYPE', 'normal');
      await eventually(() => commands.epoch !== epoch);
      await eventually(() => works(app, n));
    }
  });
});
