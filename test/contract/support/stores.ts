import { once } from 'node:events';
import { Cluster, type Redis } from 'ioredis';
import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeLater, freshKey, memoryServer, openAdmin, openAdmins } from '../../support/apps/lock-app.js';
import { topology } from '../../support/topologies/topology.js';
import { deadlineOf, hashOf, queued, serverTime } from '../../support/redis/records.js';

/** A view of the locks from outside the apps under test. */
export interface StoreView {
  /** The time by which leases are counted, in milliseconds. */
  now(): Promise<number>;
  /** Each hold as it is stored, by its attempt; what has expired may be among them. */
  holdsOf(key: string): Promise<Record<string, string>>;
  /** When the only hold of a lock ends, in milliseconds of that time. */
  deadlineOf(key: string): Promise<number>;
  /** How many have a place in the queue, whether alive or not. */
  queued(key: string): Promise<number>;
}

/** The first one where there are several; `admin`: another Redis. */
export const openStore = (admin?: Redis): StoreView =>
  topology.isMemory ? memoryView : redisView(admin ? [admin] : openAdmins());

function redisView(admins: readonly Redis[]): StoreView {
  const admin = admins[0]!;
  const HOLD = 'hold:';
  const holdsOf = async (key: string): Promise<Record<string, string>> => {
    const holds = Object.entries(await hashOf(admin, key)).filter(([field]) => field.startsWith(HOLD));
    return Object.fromEntries(holds.map(([field, hold]) => [field.slice(HOLD.length), hold]));
  };
  return {
    now: () => serverTime(admin),
    holdsOf,
    deadlineOf: (key) => deadlineOf(admins, key),
    queued: (key) => queued(admin, key),
  };
}

/** The testing kit puts the name of the module, which the apps of these tests do not have, before the prefix. */
const inMemory = (stored: string): string => `/${stored}`;
const lockInMemory = (key: string) => memoryServer.locks.all.get(inMemory(`lock:${key}`));

const memoryView: StoreView = {
  now: async () => Math.floor(memoryServer.clock.wallNow()),
  holdsOf: async (key) =>
    Object.fromEntries([...(lockInMemory(key)?.holds ?? [])].map(([attempt, hold]) => [attempt, JSON.stringify(hold)])),
  async deadlineOf(key) {
    const message = `The lock "${key}" was not held`;
    const hold = await eventually(() => lockInMemory(key)?.holds.values().next().value, { timeoutMs: 2_000, message });
    return hold.until;
  },
  queued: async (key) => lockInMemory(key)?.waiters.size ?? 0,
};

/** Does something to the data wherever a copy lies. */
export async function onEveryStore(
  change: (admin: Redis) => Promise<unknown>,
  admins: readonly Redis[] = openAdmins(),
): Promise<void> {
  await Promise.all(admins.map(change));
}

/** Takes a lock away behind the back of its holders. `admins`: connections that are open already, where it must not take long. */
export async function deleteLock(key: string, admins?: readonly Redis[]): Promise<void> {
  if (!topology.isMemory) return onEveryStore((admin) => admin.del(`lock:${key}`), admins);
  // The record stays, for its token: the clock may say the same again, and the next token has to be greater.
  const { holds, waiters, ended, jobs } = lockInMemory(key)!;
  for (const entries of [holds, waiters, ended, jobs]) entries.clear();
}

/** That the only hold of a lock ends then, in milliseconds of the time of the store. */
export async function expectDeadline(store: StoreView, key: string, expectedMs: number): Promise<void> {
  const deadline = await store.deadlineOf(key);
  if (topology.supports.oneRecord) expect(deadline).toBe(expectedMs);
  else expect(Math.abs(deadline - expectedMs)).toBeLessThanOrEqual(topology.spreadMs);
}

/** A place where no other test has its locks, so that they may have any names. */
export interface OwnPlace {
  /** Where that is a Redis. */
  readonly admin: Redis;
  /** For the apps of this test. */
  readonly options: RedisLockModuleOptions;
  /** What stands before the keys in the store. */
  readonly prefix: string;
  /** For an app in addition to those of this test. */
  readonly otherPrefix: string;
  /** All that lies there, in the first store where there are several. */
  keys(): Promise<string[]>;
  /** Forgets which commands were sent. */
  resetCommands(): Promise<void>;
  /**
   * That no command of that name was sent; it proves something only where the store is that of the test. Each script is sent by
   * EVALSHA first. EVAL alone is the probe at the start of an app.
   */
  expectNotSent(command: 'evalsha' | 'scan'): Promise<void>;
}

/** A Redis of this test alone where one is the topology, elsewhere a prefix on what is shared. */
export async function ownPlace(): Promise<OwnPlace> {
  if (topology.isMemory) return placeInMemory();
  if (!topology.isSingle) return placeInside();
  const { admin, url } = await ownRedis();
  return {
    admin,
    options: { connection: url },
    prefix: 'lock:',
    otherPrefix: 'other:',
    keys: async () => (await admin.keys('*')).toSorted(),
    resetCommands: async () => void (await admin.config('RESETSTAT')),
    expectNotSent: async (command) => expect(await admin.info('commandstats')).not.toContain(`cmdstat_${command}`),
  };
}

/** They begin as any lock does: a user may have no right to other keys. */
const freshPrefixes = () => [`lock:${freshKey('place')}:`, `lock:${freshKey('other')}:`] as const;

function placeInside(): OwnPlace {
  const [prefix, otherPrefix] = freshPrefixes();
  const nothing = async (): Promise<void> => undefined;
  const admin = openAdmin();
  const keys = () => keysUnder(admin, prefix);
  const options = { keyPrefix: prefix };
  return { admin, options, prefix, otherPrefix, keys, resetCommands: nothing, expectNotSent: nothing };
}

function placeInMemory(): OwnPlace {
  const [prefix, otherPrefix] = freshPrefixes();
  // The tests of a file run one after the other, and the apps of the last one are closed.
  const sent = jest.spyOn(memoryServer, 'run');
  closeLater({ close: async () => sent.mockRestore() });
  return {
    get admin() {
      return openAdmin();
    },
    options: { keyPrefix: prefix },
    prefix,
    otherPrefix,
    keys: async () => {
      const stored = [...memoryServer.locks.all.keys()].filter((key) => key.startsWith(inMemory(prefix)));
      return stored.map((key) => key.slice(inMemory('').length)).toSorted();
    },
    resetCommands: async () => void sent.mockClear(),
    expectNotSent: async () => expect(sent).not.toHaveBeenCalled(),
  };
}

/** The servers of a store: the one, or the nodes of a cluster. */
export async function nodesOf(admin: Redis | Cluster, role: 'all' | 'master' = 'all'): Promise<Redis[]> {
  if (!(admin instanceof Cluster)) return [admin];
  if (admin.status !== 'ready') await once(admin, 'ready');
  return admin.nodes(role);
}

async function keysUnder(admin: Redis, prefix: string): Promise<string[]> {
  const nodes = await nodesOf(admin, 'master');
  return (await Promise.all(nodes.map((node) => node.keys(`${prefix}*`)))).flat().toSorted();
}
