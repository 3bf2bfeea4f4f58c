import { once } from 'node:events';
import { Cluster, type Redis } from 'ioredis';
import { type RedisLockModuleOptions } from '../../lib/index.js';
import { deadlineOf, ownRedis } from './faults.js';
import { freshKey, openAdmin, openAdmins } from './lock-app.js';
import { topology } from './topology.js';

/** Does something to the data wherever a copy lies. */
export async function onEveryStore(change: (admin: Redis) => Promise<unknown>): Promise<void> {
  await Promise.all(openAdmins().map(change));
}

/** Takes a lock away behind the back of its holders. */
export const deleteLock = (key: string): Promise<void> => onEveryStore((admin) => admin.del(`lock:${key}`));

/** That the only hold of a lock ends then, in milliseconds of the server's clock. */
export async function expectDeadline(admin: Redis, key: string, expectedMs: number): Promise<void> {
  const deadline = await deadlineOf(admin, key);
  if (topology.supports.oneRecord) expect(deadline).toBe(expectedMs);
  else expect(Math.abs(deadline - expectedMs)).toBeLessThanOrEqual(topology.spreadMs);
}

/** A place where no other test has its locks, so that they may have any names. */
export interface OwnPlace {
  readonly admin: Redis;
  /** For the apps of this test. */
  readonly options: RedisLockModuleOptions;
  /** What stands before the keys in Redis. */
  readonly prefix: string;
  /** For an app beside those of this test. */
  readonly otherPrefix: string;
  /** All that lies there, in the first store where there are several. */
  keys(): Promise<string[]>;
  /** Forgets which commands were sent. */
  resetCommands(): Promise<void>;
  /** That no command of that name was sent; it proves something only where Redis is that of the test. */
  expectNotSent(command: 'eval' | 'scan'): Promise<void>;
}

/** A Redis of this test alone where one is the topology, elsewhere a prefix on the shared one. */
export async function ownPlace(): Promise<OwnPlace> {
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

function placeInside(): OwnPlace {
  // It begins as any lock does: a user may have no right to other keys.
  const [prefix, otherPrefix] = [`lock:${freshKey('place')}:`, `lock:${freshKey('other')}:`];
  const nothing = async (): Promise<void> => undefined;
  const admin = openAdmin();
  const keys = () => keysUnder(admin, prefix);
  const options = { keyPrefix: prefix };
  return { admin, options, prefix, otherPrefix, keys, resetCommands: nothing, expectNotSent: nothing };
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
