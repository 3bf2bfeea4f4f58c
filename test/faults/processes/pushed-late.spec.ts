import { type Redis } from 'ioredis';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { type LockScripts, LOCK_SCRIPTS, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { type RedisConnection } from '../../../lib/redis/client/redis-connection.js';
import { LOCK_CLOCK, LOCKER } from '../../../lib/redis-lock.tokens.js';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startModule } from '../../support/apps/lock-app.js';
import { StoppedClock } from '../../support/core/stopped-clock.js';
import { enqueue, untilWaiting } from '../../support/waiting/waiters.js';
import { scriptsOnClock } from '../../support/redis/lock-commands.js';
import { hashOf } from '../../support/redis/records.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

const LEASE_MS = 6_000;
/** How far ahead the clock is by which the lock is granted. A place in the queue of six seconds outlasts it. */
const AHEAD_MS = 3_000;

/** Scripts on the server's clock, to which the value of a Lua expression is added, in microseconds. */
const onClockWith = (ahead: string): LockScripts => scriptsOnClock((micros) => `${micros} + (${ahead})`);

interface Servers {
  readonly connection: RedisConnection;
  readonly scripts: LockScripts;
  readonly key: string;
  readonly admins: readonly Redis[];
  /** Has the lock served by a clock that is ahead; gives a connection to where it is then. */
  goAhead(): Promise<Redis>;
}

const SERVERS: readonly [string, () => Promise<Servers>][] = [
  [
    'by a Redis whose clock is set forward meanwhile',
    async () => {
      const { admin, url } = await ownRedis();
      const goAhead = async (): Promise<Redis> => {
        await admin.set('ahead', AHEAD_MS * 1_000);
        return admin;
      };
      const scripts = onClockWith(`redis.call('GET', 'ahead') or 0`);
      return { connection: url, scripts, key: freshKey(), admins: [admin], goAhead };
    },
  ],
  [
    'by a node of a cluster whose clock is ahead, to which the slot is moved meanwhile',
    async () => {
      const cluster = await ownCluster({ replicas: 0 });
      const key = keyOn(0);
      const admins = cluster.masters.map(({ url }) => openAdmin(url));
      const target = admins[1]!;
      const id = await target.cluster('MYID');
      const scripts = onClockWith(`redis.call('CLUSTER', 'MYID') == '${id}' and ${AHEAD_MS * 1_000} or 0`);
      const goAhead = async (): Promise<Redis> => {
        const { end } = await beginMove(cluster, `lock:${key}`);
        await end();
        return target;
      };
      return { connection: cluster.connection, scripts, key, admins, goAhead };
    },
  ],
];

async function start({ connection, scripts }: Servers) {
  const clock = new StoppedClock();
  const module = await startModule({ imports: [RedisLockModule.forRoot({ connection, drainMs: 100 })] }, (builder) =>
    builder.overrideProvider(LOCK_SCRIPTS).useValue(scripts).overrideProvider(LOCK_CLOCK).useValue(clock),
  );
  const locker = module.get<Locker>(LOCKER);
  const hear = locker.onWakeUp.bind(locker);
  const unheard: Parameters<typeof hear>[] = [];
  locker.onWakeUp = (...message) => (clock.isStopped ? void unheard.push(message) : hear(...message));
  /** As a process that continues does it: what is due is done, then what has arrived is read. */
  const goOn = (): void => {
    clock.goOn();
    for (const message of unheard.splice(0)) hear(...message);
  };
  return { locks: module.get(RedisLockService), stop: () => clock.stop(), goOn, unheard };
}

/** How many instances are subscribed. */
async function listening(admins: readonly Redis[]): Promise<number> {
  const channels = await Promise.all(admins.map((admin) => admin.pubsub('CHANNELS', 'lock:wake:*')));
  return channels.flat().length;
}

describe('a process that is blocked while a lock is handed over to it', () => {
  afterEach(closeAll);

  it.each(SERVERS)(
    'does not consider it held beside the next holder when it was granted %s',
    async (_whose, startServers) => {
      const servers = await startServers();
      const { key } = servers;
      const [holder, stopped, next] = [await start(servers), await start(servers), await start(servers)];
      await eventually(async () => (await listening(servers.admins)) === 3);
      const held = await holder.locks.acquire(key, { leaseMs: 60_000 });
      const { lock: late } = await enqueue(stopped, key, { leaseMs: LEASE_MS, waitMs: 60_000 });
      const { lock: behind } = await enqueue(next, key, { leaseMs: 60_000, waitMs: 60_000 });
      stopped.stop();
      const admin = await servers.goAhead();
      await held.release();
      const holds = Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('hold:'));
      expect(holds).toHaveLength(1);
      await eventually(() => stopped.unheard.some(([, { kind }]) => kind === 'granted'));
      const taken = await behind;
      let isGranted = false;
      void late.then(() => (isGranted = true));
      stopped.goOn();
      // It asks, and is told to wait.
      await untilWaiting(holder, key);
      expect([taken.held, isGranted]).toEqual([true, false]);
      await taken.release();
      const own = await late;
      expect([own.held, own.fencingToken > taken.fencingToken]).toEqual([true, true]);
    },
    60_000,
  );
});
