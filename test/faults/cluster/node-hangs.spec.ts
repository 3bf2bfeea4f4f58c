import { type RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { startCluster } from '../../../scripts/topologies.mjs';
import { keyOn, masterOf } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { untilRenewed } from '../../support/waiting/waiters.js';

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
  afterEach(closeAll);

  it('does not affect locks on the other nodes', async () => {
    // Nobody takes over.
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
  afterEach(closeAll);

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
  afterEach(closeAll);

  it('delays no lock on the other nodes, and is written afterwards', async () => {
    // Nobody takes over.
    const cluster = await ownCluster({ replicas: 0, nodeTimeoutMs: 60_000 });
    const { locks } = await startApp({ connection: cluster.connection, history: true });
    const at = masterOf('lock:{history}');
    const [near, far] = [keyOn((at + 1) % 3), keyOn((at + 2) % 3)];
    for (const key of [near, far]) await locks.withLock(key, () => undefined);
    expect(await locks.history()).toHaveLength(4);
    let renewals = 0;
    locks.events.on('renewed', () => (renewals += 1));
    const { pid } = cluster.masters[at]!;
    process.kill(pid, 'SIGSTOP');
    try {
      const held = await locks.acquire(far, { leaseMs: 6_000 });
      // More than one batch, of which the first has no answer by now.
      for (let i = 0; i < LOCKS; i += 1) expect(await locks.withLock(near, () => i)).toBe(i);
      await eventually(() => renewals >= 3, { timeoutMs: 20_000 });
      expect(held.held).toBe(true);
      await held.release();
      expect(locks.activity).toEqual({ held: 0, waiting: 0 });
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    const entriesOf = async (key: string) => locks.history({ key, limit: 1_000 }).catch(() => []);
    await eventually(async () => (await entriesOf(far)).length === 4, { timeoutMs: 60_000 });
    expect(await entriesOf(near)).toHaveLength(2 * LOCKS + 2);
  }, 120_000);
});
