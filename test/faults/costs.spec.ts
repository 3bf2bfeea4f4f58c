import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { startSide } from '../../bench/measure/side.mjs';
import { countCommands, watchServers } from '../../bench/measure/server.mjs';
import { buildPackage } from '../support/processes/child-app.js';
import { closeAll, closeLater, freshKey, type LockApp, startApp } from '../support/apps/lock-app.js';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { type LockOptions } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { loadScripts, ownRedis } from '../support/redis/own-redis.js';
import { queued } from '../support/redis/records.js';

afterEach(closeAll);

interface Costs {
  /** What the process sends, and what its scripts call in Redis. */
  readonly commands: number;
  readonly scriptCalls: number;
  readonly promises: number;
  readonly timers: number;
  readonly bytes: number;
}

/**
 * The most that a call may cost. A change that makes calls cheaper lowers these figures; none raises them without a reason.
 * Counts are exact; the bytes are what was measured and a quarter more, since they depend on the version of Node.
 */
const LIMITS: Record<string, Costs> = {
  // Five for each command: that of the client, of the store and of the caller, and what waits for each of the first two.
  'acquire and release': { commands: 2, scriptCalls: 6, promises: 10, timers: 0, bytes: 33_500 },
  'acquire and release, 64 callers': { commands: 0.14, scriptCalls: 4.1, promises: 6.4, timers: 0, bytes: 16_700 },
  // Callers of one process hand the lock to each other, and renew it for the proof.
  'acquire and release, 8 callers of one lock': {
    commands: 0.1,
    scriptCalls: 1.1,
    promises: 4.6,
    timers: 0,
    bytes: 14_000,
  },
  withLock: { commands: 2, scriptCalls: 6, promises: 11, timers: 0, bytes: 34_500 },
  // The release of a call travels with the acquire of the next one.
  'withLock, awaitRelease: false': { commands: 1, scriptCalls: 5, promises: 9, timers: 0, bytes: 29_200 },
  'withLock in withLock': { commands: 0, scriptCalls: 0, promises: 1, timers: 0, bytes: 3_400 },
};

/** Checks of connections, and polls of waiters on a machine that stands still, add a little. */
const SLACK = 0.5;
/** Calls before the count: code that is not yet compiled allocates more. */
const WARM_UP = 200;
const COUNT = 500;
const INNER = 20;

type Side = Awaited<ReturnType<typeof startSide>>;

let redis: StartedRedis;
let side: Side;
/** Its calls return before their release. */
let early: Side;

beforeAll(async () => {
  await buildPackage();
  redis = await startRedisServer();
  // A process without Jest, whose own promises would count.
  side = await startSide('nestjs-redis-lock', { port: redis.port });
  early = await startSide('nestjs-redis-lock, awaitRelease: false', { port: redis.port });
  for (const one of [side, early]) await one.run('loop', { callers: 8, count: 2_000 });
}, 120_000);

afterAll(async () => {
  for (const one of [side, early]) await one.end();
  await redis.stop();
});

async function costsOf(loop: object, count = COUNT, of = side): Promise<Costs> {
  await of.run('loop', { ...loop, count: WARM_UP });
  const stop = await countCommands([redis]);
  const { calls, failures } = await of.run('loop', { ...loop, count });
  const { commands, scriptCalls } = await stop();
  expect(failures).toBe(0);
  const { promises, timers } = await of.run('count', { ...loop, count });
  const { bytes } = await of.run('allocate', { ...loop, count });
  return { commands: commands / calls, scriptCalls: scriptCalls / calls, promises, timers, bytes };
}

/** What each call inside a call adds to it. */
async function costsInside(outer: object, nested: object): Promise<Costs> {
  const [without, within] = [await costsOf(outer), await costsOf({ ...nested, inner: INNER }, COUNT / INNER)];
  const added = Object.entries(within).map(([name, cost]) => [name, (cost - without[name as keyof Costs]) / INNER]);
  return Object.fromEntries(added) as Costs;
}

const oneCaller = { callers: 1 };
const MEASURED: Record<string, () => Promise<Costs>> = {
  'acquire and release': () => costsOf(oneCaller),
  'acquire and release, 64 callers': () => costsOf({ callers: 64 }),
  'acquire and release, 8 callers of one lock': () => costsOf({ callers: 8, hot: true }),
  withLock: () => costsOf({ ...oneCaller, call: 'withLock' }),
  'withLock, awaitRelease: false': () => costsOf({ ...oneCaller, call: 'withLock' }, COUNT, early),
  'withLock in withLock': () =>
    costsInside({ ...oneCaller, call: 'withLock' }, { ...oneCaller, call: 'nested withLock' }),
};

describe('A call', () => {
  it.each(Object.keys(LIMITS))('costs no more than its limits: %s', async (name) => {
    const costs = await MEASURED[name]!();
    const over = Object.entries(LIMITS[name]!).filter(([what, limit]) => costs[what as keyof Costs] > limit + SLACK);
    expect(over.map(([what, limit]) => `${what}: ${costs[what as keyof Costs]}, limit ${limit}`)).toEqual([]);
  });

  it('leaves no timer and no listener behind, and in Redis only the record of its lock', async () => {
    const watch = closeLater(withClose(watchServers([redis])));
    await watch.clear();
    const { timers, listeners, heapKiB, done } = await side.run('cycles', { count: 2_000 });
    expect({ timers, listeners, done }).toEqual({ timers: 0, listeners: 0, done: 2_000 });
    expect(heapKiB).toBeLessThan(5 * 1_024);
    expect(await watch.othersThan('bench:cycle:')).toBe(0);
  });
});

const withClose = <T extends { close(): void }>(watch: T) => ({ ...watch, close: async () => watch.close() });

/** Each waiter says this often that it is alive: a third of its waiter lease. */
const POLL_MS = 2_000;
/** Two commands per acquisition, and a few that a machine which stood still may cause. */
const POLL_SLACK = 10;

interface Scene {
  readonly waiters: number;
  readonly heldMs: number;
  /** How many keys each of them asks for. */
  readonly names?: number;
  /** How many places they have in the queue of Redis, if not one each. */
  readonly places?: number;
  readonly options?: LockOptions;
}

/** Each caller has a separate place. */
const EACH: LockOptions = { fair: 'strict' };

interface WaitingCosts {
  readonly scripts: number;
  readonly messages: number;
  /** What the waiters may have sent to keep their places. */
  readonly polls: number;
}

/** Has a lock held for `heldMs` while `waiters` wait, and counts what it costs until all have had it. */
async function costOf(
  apps: readonly LockApp[],
  admin: Redis,
  { waiters, heldMs, names = 1, places = waiters, options = EACH }: Scene,
): Promise<WaitingCosts> {
  // In the common order of all waiters: all of them are in the queue of the first key.
  const keys = Array.from({ length: names }, () => freshKey()).sort();
  const patient = { ...options, waitMs: 60_000, leaseMs: 120_000 };
  await admin.config('RESETSTAT');
  const from = performance.now();
  const held = await apps[0]!.locks.acquire(keys, patient);
  const all = Array.from({ length: waiters }, (_, i) =>
    apps[i % apps.length]!.locks.acquire(keys, patient).then((lock) => lock.release()),
  );
  await eventually(async () => (await queued(admin, keys[0]!)) === places);
  await sleep(heldMs);
  await held.release();
  await Promise.all(all);
  const polls = places * Math.ceil((performance.now() - from) / POLL_MS);
  const stats = await admin.info('commandstats');
  const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  return { scripts: calls('evalsha') + calls('eval'), messages: calls('publish'), polls };
}

async function startThree(): Promise<{ apps: LockApp[]; admin: Redis }> {
  const { admin, url } = await ownRedis();
  await loadScripts(admin);
  const start = () => startApp({ connection: url });
  const apps = [await start(), await start(), await start()];
  for (const { locks } of apps) await locks.withLock('warm-up', () => undefined);
  await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === apps.length);
  return { apps, admin };
}

describe('the costs of waiting', () => {
  it.each([1_000, 3_000, 6_000])(
    'are at most two commands per acquisition, and one poll per waiter every 2 s: held for %i ms',
    async (heldMs) => {
      const { apps, admin } = await startThree();
      const { scripts, polls } = await costOf(apps, admin, { waiters: 20, heldMs });
      // Acquires of one turn travel together; each release is a separate command, since each holder waits for the one before.
      expect(scripts).toBeGreaterThanOrEqual(21 + 1);
      expect(scripts).toBeLessThanOrEqual(2 * 21 + polls + POLL_SLACK);
    },
  );

  it.each([4, 16, 64])('are one message per grant, however many wait: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0 });
    expect(messages).toBeLessThanOrEqual(waiters + POLL_SLACK);
    expect(scripts).toBeLessThanOrEqual(2 * (waiters + 1) + polls + POLL_SLACK);
  });

  it('are those of one caller per process where callers hand the lock to each other', async () => {
    const { apps, admin } = await startThree();
    const scene = { waiters: 64, heldMs: 100, places: apps.length, options: {} };
    const { scripts, messages, polls } = await costOf(apps, admin, scene);
    // Three turns would do with eight commands; on a machine that stands still, a turn may end early.
    expect(scripts).toBeLessThan(64 + polls);
    expect(messages).toBeLessThan(64);
  });

  it.each([4, 16, 64])('are at most two messages per release without fairness: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0, options: { fair: false } });
    // A race that is lost costs a command more, and each release starts at most two.
    expect(messages).toBeLessThanOrEqual(4 * waiters + POLL_SLACK);
    expect(scripts).toBeLessThanOrEqual(6 * (waiters + 1) + polls + POLL_SLACK);
  });

  it.each([4, 16, 64])('are one message per key and grant for several keys: %i waiters', async (waiters) => {
    const { apps, admin } = await startThree();
    const { scripts, messages, polls } = await costOf(apps, admin, { waiters, heldMs: 0, names: 3 });
    expect(messages).toBeLessThanOrEqual(3 * waiters + POLL_SLACK);
    // The request, the acquire when woken, the release of each key, and one more for a race.
    expect(scripts).toBeLessThanOrEqual(6 * (waiters + 1) + polls + POLL_SLACK);
  });
});
