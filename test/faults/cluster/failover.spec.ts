import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock } from '../../../lib/index.js';
import { startBus } from '../../support/network/cluster-bus.js';
import { keyOn } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { queued } from '../../support/redis/records.js';

const LEASE_MS = 3_000;
/** A holder unknown to the new master continues until its next renewal, and so do those that the old master admits meanwhile. */
const RENEWALS = 3;
const HANGS_MS = 4_000;

const isMaster = async (node: Redis): Promise<boolean> => (await node.info('replication')).includes('role:master');

async function start() {
  const bus = startBus();
  const cluster = await ownCluster({ announceBus: bus.announceBus });
  const nodes = [...cluster.masters, ...cluster.replicas].map(({ url }) => openAdmin(url));
  const ids = await Promise.all(nodes.map((node) => node.cluster('MYID')));
  const replica = nodes[3]!;
  const isPromoted = () => eventually(() => isMaster(replica), { timeoutMs: 20_000 });
  /** Has the replica of the first master take its place. */
  const failOver = async (...how: string[]) => {
    await replica.call('CLUSTER', 'FAILOVER', ...how).catch(async (error: unknown) => {
      // On a busy machine, the others may have promoted it before.
      if (!(await isMaster(replica))) throw error;
    });
    await isPromoted();
  };
  /** Has all other nodes forget the first master, which continues as before. */
  const forgetMaster = () => Promise.all(nodes.slice(1).map((node) => node.call('CLUSTER', 'FORGET', ids[0]!)));
  /** Cuts the bus of the first master. */
  const cutOffMaster = () => bus.cutOff({ id: ids[0]!, server: cluster.masters[0]! });
  return { bus, cluster, nodes, isPromoted, failOver, forgetMaster, cutOffMaster };
}

type Started = Awaited<ReturnType<typeof start>>;

/** Holds a lock on each master, and waits for each; the replicas have all of it. */
async function holdAll({ cluster: { connection }, nodes }: Started) {
  const [a, b] = [await startApp({ connection, leaseMs: LEASE_MS }), await startApp({ connection, leaseMs: LEASE_MS })];
  const locks = await Promise.all([0, 1, 2].map((n) => a.locks.acquire(keyOn(n))));
  const waiting = locks.map(({ key }) => b.locks.acquire(key, { waitMs: 60_000 }));
  const replicas = nodes.slice(3);
  await Promise.all(replicas.map((node) => node.readonly()));
  const isKnown = async ({ key }: Lock, i: number) => (await queued(replicas[i]!, key)) === 1;
  await eventually(async () => (await Promise.all(locks.map(isKnown))).every(Boolean));
  return { a, locks, waiting };
}

/** Asserts that a hold continues, or that its holder learns of the loss in time; then the waiter gets the lock. */
async function expectServed({ locks }: LockApp, lock: Lock, waiting: readonly Promise<Lock>[]): Promise<void> {
  const first = Promise.race(waiting);
  const isTaken = await Promise.race([first, sleep(2 * LEASE_MS, null)]);
  if (isTaken) {
    let renewals = 0;
    locks.events.on('renewed', ({ key }) => void (key === lock.key && (renewals += 1)));
    await eventually(() => !lock.held, { timeoutMs: 30_000 });
    expect(renewals).toBeLessThanOrEqual(RENEWALS);
  } else {
    expect(lock.held).toBe(true);
    await lock.release();
  }
  await Promise.all(waiting.map(async (next) => (await next).release()));
}

const FAILOVERS: [string, (started: Started) => Promise<unknown>][] = [
  ['the death of the master', ({ cluster, isPromoted }) => cluster.masters[0]!.kill().then(isPromoted)],
  ['a failover that does not wait for the master', ({ failOver }) => failOver('FORCE')],
  ['a takeover without a vote', ({ failOver }) => failOver('TAKEOVER')],
  [
    'a takeover while the old master hangs',
    async ({ cluster, failOver }) => {
      const [master] = cluster.masters;
      await master!.kill('SIGSTOP');
      setTimeout(() => void master!.kill('SIGCONT'), HANGS_MS);
      await failOver('TAKEOVER');
    },
  ],
  [
    'a takeover after which all forget the old master',
    async ({ failOver, forgetMaster }) => {
      await failOver('TAKEOVER');
      await forgetMaster();
    },
  ],
  [
    'a takeover that the old master does not hear of, and after which all forget it',
    async ({ cutOffMaster, failOver, forgetMaster }) => {
      cutOffMaster();
      await failOver('TAKEOVER');
      await forgetMaster();
    },
  ],
  [
    'a partition of the bus, in which clients reach all',
    async ({ bus, cutOffMaster, isPromoted }) => {
      cutOffMaster();
      await isPromoted();
      setTimeout(() => bus.cutOff(null), HANGS_MS);
    },
  ],
];

describe('the locks of a cluster', () => {
  afterEach(closeAll);

  it.each(FAILOVERS)(
    'have one holder at a time over %s',
    async (_what, failOver) => {
      const started = await start();
      const { a, locks, waiting } = await holdAll(started);
      await failOver(started);
      // It hears only of the new master.
      const { port } = started.cluster.replicas[0]!;
      const c = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port }] }, leaseMs: LEASE_MS });
      await Promise.all(
        locks.map((lock, i) => expectServed(a, lock, [waiting[i]!, c.locks.acquire(lock.key, { waitMs: 60_000 })])),
      );
    },
    90_000,
  );
});
