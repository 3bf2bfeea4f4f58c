import { type RedisOptions } from 'ioredis';
import { type RedisLockModuleOptions } from '../../../lib/index.js';

type TopologyName = 'memory' | 'single' | 'secured' | 'sentinel' | 'cluster' | 'quorum' | 'quorum-degraded';

/** How to reach one Redis, or a cluster. */
export type StoreAddress =
  string | RedisOptions | { readonly cluster: readonly { readonly host: string; readonly port: number }[] };

/** What global-setup.mjs passes to the workers. */
interface Addresses {
  readonly connection: NonNullable<RedisLockModuleOptions['connection']>;
  /** Addresses with all permissions: one for each store that has its own copy of the data. */
  readonly admins: readonly StoreAddress[];
}

const name = (process.env['TOPOLOGY'] ?? 'single') as TopologyName;
const isQuorum = name === 'quorum' || name === 'quorum-degraded';

/** The Redis that the test run started. */
export function redisUrl(): string {
  const url = process.env['REDIS_URL'];
  if (!url) throw new Error('REDIS_URL is not set: expected Jest to run the test.');
  return url;
}

function addresses(): Addresses {
  if (name === 'memory') return { connection: 'redis://unused', admins: [] };
  if (name === 'single') return { connection: redisUrl(), admins: [redisUrl()] };
  const value = process.env['TOPOLOGY_ADDRESSES'];
  if (!value) throw new Error(`TOPOLOGY=${name} is not a topology of global-setup.mjs.`);
  return JSON.parse(value) as Addresses;
}

/** Where the tests have their locks: TOPOLOGY says it. */
export const topology = {
  name,
  isSingle: name === 'single',
  /** No Redis: the store of the testing kit. */
  isMemory: name === 'memory',
  supports: {
    /** Waiters are served in order of arrival, and a release hands the lock to the next. */
    queue: !isQuorum,
    permits: !isQuorum,
    /** An acquire that is sent again after its grant gets the same token. */
    sameGrant: !isQuorum,
    /** A lease may be shorter than a grant takes: a quorum asks its masters twice. */
    shortLeases: !isQuorum,
    /** A lock is one record, timed by one clock. */
    oneRecord: !isQuorum,
    /** Several keys are granted by one script, and so at one moment. */
    oneScript: name !== 'cluster',
  },
  /** How far apart the copies of one deadline may be, in ms. */
  spreadMs: isQuorum ? 1_000 : 0,
  /** The `connection` option; the default of `startApp`. */
  get connection() {
    return addresses().connection;
  },
  get admins() {
    return addresses().admins;
  },
};

// A test that makes no sense on a topology is not registered, rather than skipped, so that a report shows only real skips.
const noTest = Object.assign(() => undefined, {
  each: () => () => undefined,
  failing: () => undefined,
}) as unknown as jest.It;
const noTests = (): void => undefined;
export const itWhen = (makesSense: boolean): jest.It => (makesSense ? it : noTest);

/** For tests that break or watch a Redis, and therefore start their own. */
export const itOnSingle = itWhen(topology.isSingle);

/** For tests that look into Redis, or that need several processes or clocks. */
export const itOnRedis = itWhen(!topology.isMemory);

/** For tests of behavior that only the store of the testing kit can be made to show. */
export const itInMemory = itWhen(topology.isMemory);

/** Like `itOnRedis`, for a whole group. */
export const describeOnRedis = topology.isMemory ? noTests : describe;

/** For tests of the order in which waiters are served, and of their places. */
export const itWithQueue = itWhen(topology.supports.queue);

export const itWithoutQueue = itWhen(!topology.supports.queue);

export const itWithPermits = itWhen(topology.supports.permits);

/** For tests of semaphores in separate processes. */
export const itOnRedisWithPermits = itWhen(topology.supports.permits && !topology.isMemory);

export const itWithoutPermits = itWhen(!topology.supports.permits);

/** For tests of several keys that each Redis grants at one moment. */
export const itWithOneScript = itWhen(topology.supports.oneScript);

/** For tests of several keys that are granted at one moment. */
export const itWithOneMoment = itWhen(topology.supports.oneScript && topology.supports.oneRecord);

/** Puts several keys into one slot of a cluster, where each slot is acquired separately. */
export const IN_ONE_SLOT: RedisLockModuleOptions = topology.supports.oneScript ? {} : { hashTag: () => 'one' };
