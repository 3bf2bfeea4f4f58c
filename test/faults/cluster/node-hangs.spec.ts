import { type RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { startCluster, type StartedCluster } from '../../../scripts/topologies.mjs';
import { keyOn, masterOf } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { untilRenewed } from '../../support/waiting/waiters.js';
import { type Lock, LockStoreError } from '../../../lib/index.js';
import { startClusterNode } from '../../support/redis/cluster-node.js';
import { proxyTo } from '../../support/redis/own-redis.js';
import { keysOf } from '../../support/apps/listed.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const LEASE_MS = 8_000;

async function start(options: Parameters<typeof startCluster>[0]) {
  const cluster = await ownCluster(options);
  const seeds = cluster.connection.cluster.slice(0, 1);
  const seed = cluster.masters.find(({ port }) => port === seeds[0]!.port)!;
  return { ...cluster, seeds, seed };
}

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
  it('does not affect locks on the other nodes', async () => {
    // No node takes over.
    const { seeds, seed } = await start({ replicas: 0, nodeTimeoutMs: 60_000 });
    const app = await startApp({ connection: { cluster: seeds } });
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
  }, 90_000);

  it('is replaced by the replica that takes over', async () => {
    const { seeds, seed } = await start({ replicas: 1 });
    const app = await startApp({ connection: { cluster: seeds } });
    for (const n of [0, 1, 2]) expect(await works(app, n)).toBe(true);
    await hang(seed, async () => {
      await eventually(() => works(app, 0), { timeoutMs: 60_000 });
      const lock = await app.locks.acquire(keyOn(0), { leaseMs: 2_000 });
      await untilRenewed(app, 2);
      await lock.release();
    });
    for (const n of [0, 1, 2]) await eventually(() => works(app, n));
  }, 120_000);
});

describe('the epoch of the commands of a cluster', () => {
  it('changes when the connection to any node is lost', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const { masters, connection } = cluster;
    const app = await startApp({ connection });
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

const LOCKS = 300;

describe('a history whose node hangs', () => {
  it('delays no lock on the other nodes, and is written afterwards', async () => {
    // No node takes over.
    const cluster = await ownCluster({ replicas: 0, nodeTimeoutMs: 60_000 });
    const { locks } = await startApp({ connection: cluster.connection, history: true });
    const at = masterOf('lock:{history}');
    const [near, far] = [keyOn((at + 1) % 3), keyOn((at + 2) % 3)];
    for (const key of [near, far]) await locks.withLock(key, () => undefined);
    expect(await locks.history()).toHaveLength(4);
    let renewals = 0;
    locks.events.on('renewed', () => (renewals += 1));
    await hang(cluster.masters[at]!, async () => {
      const held = await locks.acquire(far, { leaseMs: 6_000 });
      // More than one batch, of which the first has no answer by now.
      for (let i = 0; i < LOCKS; i += 1) expect(await locks.withLock(near, () => i)).toBe(i);
      await eventually(() => renewals >= 3, { timeoutMs: 20_000 });
      expect(held.held).toBe(true);
      await held.release();
      expect(locks.activity).toEqual({ held: 0, waiting: 0 });
    });
    const entriesOf = async (key: string) => locks.history({ key, limit: 1_000 }).catch(() => []);
    await eventually(async () => (await entriesOf(far)).length === 4, { timeoutMs: 60_000 });
    expect(await entriesOf(near)).toHaveLength(2 * LOCKS + 2);
  }, 120_000);
});

/** Stops a node, and has `app` hold a lock on each of the masters, one of which was a replica. */
async function hangWhileHeld(
  cluster: StartedCluster,
  app: LockApp,
  during: (keys: string[]) => Promise<void>,
): Promise<void> {
  const keys = [0, 1, 2].map(keyOn).toSorted();
  for (const key of keys) await app.locks.withLock(key, () => undefined);
  await hang(cluster.masters[1]!, async () => {
    const acquire = (key: string) => app.locks.acquire(key, { waitMs: 4_000, leaseMs: 60_000 });
    const held: Lock[] = [];
    for (const key of keys) held.push(await eventually(() => acquire(key), { timeoutMs: 60_000 }));
    await during(keys);
    for (const lock of held) await lock.release();
  });
}

describe('list', () => {
  it('includes the locks that a replica serves in place of a hanging node', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const app = await startApp({ connection: cluster.connection });
    await hangWhileHeld(cluster, app, async (keys) => expect(await keysOf(app)).toEqual(keys));
  }, 120_000);

  it('notices by itself that a node hangs, and asks its replica', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const app = await startApp({ connection: cluster.connection });
    const other = await startApp({ connection: cluster.connection });
    expect(await keysOf(app)).toEqual([]);
    // Whether the first call knows in time that the node is silent is a matter of a millisecond.
    const list = () => keysOf(app).catch(() => keysOf(app));
    await hangWhileHeld(cluster, other, async (keys) => expect(await list()).toEqual(keys));
  }, 120_000);

  it('waits for all nodes when it is the first command', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const holder = await startApp({ connection: cluster.connection });
    const keys = [0, 1, 2].map(keyOn);
    const held = await Promise.all(keys.map((key) => holder.locks.acquire(key)));
    const seed = await proxyTo(cluster.masters[0]!.url);
    seed.delayMs = 50;
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: seed.port }] } });
    expect(await keysOf(app)).toEqual(keys.toSorted());
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('rejects when no node can be reached, rather than end without locks', async () => {
    const node = await startClusterNode();
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: node.port }] } });
    const held = await app.locks.acquire(freshKey());
    await node.stop();
    expect(await rejection(keysOf(app))).toBeInstanceOf(LockStoreError);
    await held.release().catch(() => undefined);
  });
});
