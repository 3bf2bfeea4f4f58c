import { newClientId } from '../core/store/attempt-ids.js';
import { type JobOfKey, type LastRun, type ListOptions, type UnreadableKey } from '../core/store/lock-state.js';
import { type FullLockStore } from '../core/store/capabilities.js';
import { QuorumLockStore } from './quorum/quorum-lock-store.js';
import { type RedisConnection } from './client/redis-connection.js';
import { type PagedHistory } from './redis-history.js';
import { RedisLockStore } from './redis-lock-store.js';
import { type RedisLockStoreOptions } from './redis-lock-store.options.js';

interface StoreOptions extends Omit<RedisLockStoreOptions, 'connection' | 'clientId'> {
  /** One Redis, or the independent masters of a quorum. */
  readonly connection: RedisConnection | readonly RedisConnection[];
}

/** The store of Redis, which can also list jobs. */
export interface RedisLocks extends Omit<FullLockStore, 'setPermits'> {
  readonly history: PagedHistory;
  /** The last run of each job whose key begins with `prefix`. */
  jobs(options: ListOptions): AsyncIterable<JobOfKey | UnreadableKey>;
  /** The last run of each job of one key. */
  runs(key: string): Promise<readonly LastRun[]>;
}

/** Opens the store of a connection: one Redis, Sentinel or a cluster, or a quorum. */
export function openStore({ connection, ...options }: StoreOptions): RedisLocks {
  if (!isList(connection)) return new RedisLockStore({ ...options, connection });
  const { clock, random, reporter, minReplicas, durable, replicaTimeoutMs } = options;
  const clientId = newClientId(random);
  const nodes = connection.map((one) => new RedisLockStore({ ...options, connection: one, clientId }));
  return new QuorumLockStore(clientId, nodes, {
    clock,
    random,
    reporter,
    confirmMs: minReplicas > 0 || durable ? replicaTimeoutMs : 0,
  });
}

const isList = (connection: StoreOptions['connection']): connection is readonly RedisConnection[] =>
  Array.isArray(connection);
