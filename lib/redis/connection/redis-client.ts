import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { type Timers } from '../../core/clock.js';
import { CLOSE_TIMEOUT_MS } from '../timing.js';

/** Any ioredis client, also of the caller's own copy of ioredis. */
export type RedisClient = Redis | Cluster;

/** A Redis Cluster by some of its nodes, with the options of ioredis' `Cluster`. */
export interface RedisClusterOptions extends ClusterOptions {
  readonly cluster: readonly ClusterNode[];
}

/**
 * How to reach Redis: a URL, ioredis options (with `sentinels` and `name` for Sentinel), the nodes of a cluster, or a
 * client, which is used and never closed.
 */
export type RedisConnection = string | RedisOptions | RedisClusterOptions | Redis | Cluster;

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster;

/** Whether a command is sent at once; otherwise ioredis would queue it, and send it at any time. */
export const isWritable = (client: RedisClient): boolean =>
  client.status === 'ready' && (isCluster(client) || client.stream.writable);

/** The retry strategy of a connection that another one replaces once it has ended. */
export const neverReconnect = (): null => null;

/** Whether a connection of ours stays closed once it has ended. */
export const endsForGood = (client: RedisClient): boolean =>
  !isCluster(client) && client.options.retryStrategy === neverReconnect;

/** The database that a client has selected; while it is not connected, the one that it will select again. */
export function databaseOf(client: Redis): number {
  const { prevCondition } = client as unknown as { readonly prevCondition?: Redis['condition'] };
  return (prevCondition ?? client.condition)?.select ?? client.options.db ?? 0;
}

/** Where commands go, for people: never a password. */
export function addressOf({ options }: RedisClient): string {
  const { host, port, path, sentinels, name } = options as RedisOptions;
  if (!sentinels) return path ?? `${host}:${port}`;
  return `sentinel ${name} of ${sentinels[0]?.host}:${sentinels[0]?.port ?? 26379}`;
}

/** Closes a connection of ours; resolves when its sockets have ended, or after a short limit. */
export async function closeClient(client: RedisClient, clock: Timers): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'wait') return client.disconnect(false);
  // A cluster ends before the connections to its nodes do.
  const nodes = isCluster(client) ? client.nodes().filter(({ status }) => status !== 'wait' && status !== 'end') : [];
  const ends = [client, ...nodes].map((one) => new Promise<void>((resolve) => one.once('end', resolve)));
  let cancel = (): void => undefined;
  const limit = new Promise<void>((resolve) => (cancel = clock.setTimer(resolve, CLOSE_TIMEOUT_MS)));
  client.disconnect(false);
  await Promise.race([Promise.all(ends), limit]);
  cancel();
}
