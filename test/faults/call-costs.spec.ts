import { startSide } from '../../bench/measure/side.mjs';
import { countCommands, watchServers } from '../../bench/measure/server.mjs';
import { buildPackage } from '../support/processes/child-app.js';
import { closeAll, closeLater } from '../support/apps/lock-app.js';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';

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
  // Of each command, the store makes a promise, and the core another one of it.
  'acquire and release': { commands: 2, scriptCalls: 6, promises: 10, timers: 0, bytes: 39_000 },
  'acquire and release, 64 callers': { commands: 0.14, scriptCalls: 4.1, promises: 6.5, timers: 0, bytes: 21_000 },
  // Callers of one process hand the lock to each other, and renew it for the proof.
  'acquire and release, 8 callers of one lock': {
    commands: 0.1,
    scriptCalls: 1.1,
    promises: 4.6,
    timers: 0,
    bytes: 15_000,
  },
  withLock: { commands: 2, scriptCalls: 6, promises: 11, timers: 0, bytes: 40_000 },
  // The release of a call travels with the acquire of the next one.
  'withLock, awaitRelease: false': { commands: 1, scriptCalls: 5, promises: 9, timers: 0, bytes: 30_000 },
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
afterEach(closeAll);

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
