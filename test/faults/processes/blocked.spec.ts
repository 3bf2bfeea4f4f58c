import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { type Redis } from 'ioredis';
import { LOCK_SCRIPTS, Locked, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp, startModule } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { LOCK_CLOCK, LOCKER } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type Clock, systemClock } from '../../../lib/core/clock.js';
import { enqueue, untilWaiting } from '../../support/waiting/waiters.js';
import { hashOf } from '../../support/redis/records.js';
import { type RedisConnection } from '../../../lib/redis/client/redis-connection.js';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { scriptsOnClock } from '../../support/redis/lock-commands.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

afterEach(closeAll);

/** The clock of a process that can be stopped: then no timer fires, and time continues. */
class StoppedClock implements Clock {
  readonly #due: (() => void)[] = [];
  protected stoppedSince: number | null = null;

  get isStopped(): boolean {
    return this.stoppedSince !== null;
  }

  now = (): number => systemClock.now();

  wallNow = (): number => systemClock.wallNow();

  setTimer(callback: () => void, delayMs: number): () => void {
    const fire = (): void => (this.isStopped ? void this.#due.push(fire) : callback());
    const cancel = systemClock.setTimer(fire, delayMs);
    return () => {
      cancel();
      const at = this.#due.indexOf(fire);
      if (at >= 0) this.#due.splice(at, 1);
    };
  }

  stop(): void {
    this.stoppedSince = systemClock.now();
  }

  goOn(): void {
    this.stoppedSince = null;
    for (const fire of this.#due.splice(0)) fire();
  }
}

/** The clock of a machine that can be suspended: then its monotonic clock also stands still. */
class SleepyClock extends StoppedClock {
  #sleptMs = 0;

  override now = (): number => (this.stoppedSince ?? systemClock.now()) - this.#sleptMs;

  override goOn(): void {
    if (this.stoppedSince !== null) this.#sleptMs += systemClock.now() - this.stoppedSince;
    super.goOn();
  }
}

/** Keeps the event loop busy, as a large JSON or a garbage collection does. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

@Injectable()
class Work {
  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'run-unlocked' })
  async run(_id: string): Promise<string> {
    return 'ran';
  }
}

describe('a process that was blocked while its call was answered', () => {
  it.each([
    { leaseMs: 30_000, waitMs: 0, blockedMs: 1_500 },
    { leaseMs: 400, waitMs: 0, blockedMs: 300 },
    { leaseMs: 24_000, waitMs: 10_000, blockedMs: 5_500 },
  ])(
    'gets the lock that it was granted ($leaseMs ms lease, $blockedMs ms blocked)',
    async ({ blockedMs, ...options }) => {
      const { url, admin } = await ownRedis();
      const { locks } = await startApp({ connection: url });
      await locks.withLock(freshKey(), () => undefined);
      const connections = async () => (await admin.client('LIST')) as string;
      const idsOf = (list: string) => list.match(/^id=\d+/gm);
      const before = idsOf(await connections());
      const key = freshKey();
      const acquiring = locks.acquire(key, options);
      await nextTurn();
      block(blockedMs);
      const lock = await acquiring;
      expect(lock.held || options.leaseMs < blockedMs + 200).toBe(true);
      // Nothing was wrong with the connections.
      expect(idsOf(await connections())).toEqual(before);
      await lock.release();
    },
  );

  it('keeps its connections to a Redis that is far away', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    // Each way: the answers come later than those that are there when the block ends.
    proxy.delayMs = 40;
    const { locks } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    const idsOf = async () => ((await admin.client('LIST')) as string).match(/^id=\d+/gm);
    const before = await idsOf();
    const acquiring = locks.acquire(freshKey(), { leaseMs: 400 });
    await nextTurn();
    block(400);
    const lock = await acquiring;
    expect(await idsOf()).toEqual(before);
    await lock.release();
  });

  it('does not run unlocked at the same time as the holder', async () => {
    const { url } = await ownRedis();
    const holder = await startApp({ connection: url });
    const { app, locks } = await startApp({ connection: url }, { providers: [Work] });
    await locks.withLock(freshKey(), () => undefined);
    const id = freshKey();
    const held = await holder.locks.acquire(`work:${id}`);
    const running = rejection(app.get(Work).run(id));
    await nextTurn();
    block(1_500);
    expect(await running).toMatchObject({ code: 'LOCK_BUSY' });
    expect(held.held).toBe(true);
    await held.release();
  });
});

describe('a machine that sleeps while it waits', () => {
  it('does not trust a grant that came meanwhile', async () => {
    const { admin, url } = await ownRedis();
    const [proxy, clock, key] = [await proxyTo(url), new SleepyClock(), freshKey()];
    const [holder, next] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const lockModule = RedisLockModule.forRoot({ connection: proxy.url, drainMs: 100 });
    const sleeper = await startModule({ imports: [lockModule] }, (builder) =>
      builder.overrideProvider(LOCK_CLOCK).useValue(clock),
    );
    const locks = sleeper.get(RedisLockService);
    // Behind a slow network, a subscription would come too late for the message.
    await eventually(async () => (await admin.pubsub('CHANNELS', '*')).length === 3, { message: 'Not all listen' });
    const held = await holder.locks.acquire(key);
    // Once it has heard that it waits, it can check what is pushed to it.
    const waiting = new Promise((resolve) => locks.events.on('waiting', resolve));
    const asleep = locks.acquire(key, { leaseMs: 6_000, waitMs: 50_000 });
    await waiting;
    clock.stop();
    const locker = sleeper.get<Locker>(LOCKER);
    const hear = locker.onWakeUp.bind(locker);
    const woken = new Promise<void>((resolve) => {
      locker.onWakeUp = (...message) => {
        clock.goOn();
        hear(...message);
        resolve();
      };
    });
    // What is sent to it now arrives when its place in the queue has ended, and wakes it.
    proxy.delayMs = 8_000;
    const { lock: behind } = await enqueue(next, key, { leaseMs: 3_000, waitMs: 50_000 });
    // By the clock that stands still the message then comes sooner after the last command than it could have been sent.
    await sleep(1_500);
    await held.release();
    expect(Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('hold:'))).toHaveLength(1);
    const taken = await behind;
    await woken;
    proxy.delayMs = 0;
    // It asks, and has to wait.
    await untilWaiting(holder, key);
    await taken.release();
    const own = await asleep;
    expect([own.held, own.fencingToken > taken.fencingToken]).toEqual([true, true]);
  }, 60_000);
});

describe('a lock that was handed over', () => {
  it('outlives an extension that is shorter than its lease', async () => {
    const { url } = await ownRedis();
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const { lock } = await enqueue(b, key, { leaseMs: 30_000 });
    await held.release();
    const own = await lock;
    await own.extend(1_000);
    await eventually(() => own.remainingMs > 10_000, { message: 'It was not renewed to its full lease' });
    expect(own.held).toBe(true);
  });
});

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
  it.each(SERVERS)(
    'does not consider it held at the same time as the next holder when it was granted %s',
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
      // It asks, and has to wait.
      await untilWaiting(holder, key);
      expect([taken.held, isGranted]).toEqual([true, false]);
      await taken.release();
      const own = await late;
      expect([own.held, own.fencingToken > taken.fencingToken]).toEqual([true, true]);
    },
    60_000,
  );
});
