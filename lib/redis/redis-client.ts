import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../core/lock.errors.js';

/** Any ioredis client, of the caller's own copy of ioredis. */
export type RedisClient = Redis | Cluster;

/** How to reach Redis: a URL, ioredis options, or a client, which is used and never closed. */
export type RedisConnection = string | RedisOptions | Redis | Cluster;

/** Recognised by what it can do: `instanceof` fails when the app and this package load two copies of ioredis. */
export const isRedisClient = (value: unknown): value is RedisClient =>
  typeof (value as RedisClient | null)?.evalsha === 'function' &&
  typeof (value as RedisClient).duplicate === 'function';

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster;

/**
 * Our own connections give an unsent command back soon, so that nothing queues up while Redis is away: we ask again. They
 * never give up, and are back soon after Redis is, whatever the application chose for its own.
 */
const OWN_OPTIONS: RedisOptions = {
  maxRetriesPerRequest: 1,
  lazyConnect: true,
  disconnectTimeout: 100,
  retryStrategy: reconnectDelayMs,
};

function reconnectDelayMs(times: number): number {
  return Math.min(50 * times, 1_000);
}

/** Opens a connection that is ours to close. */
export function openClient(connection: string | RedisOptions): Redis {
  return typeof connection === 'string'
    ? new Redis(connection, OWN_OPTIONS)
    : new Redis({ ...connection, ...OWN_OPTIONS });
}

/**
 * One more connection to the same place, ours to close. It does not subscribe again by itself: ioredis leaves the rejection
 * of that unhandled when the connection is closed meanwhile.
 */
export function duplicateClient(client: RedisClient): RedisClient {
  return isCluster(client)
    ? client.duplicate([], { lazyConnect: false, clusterRetryStrategy: reconnectDelayMs })
    : client.duplicate({ ...OWN_OPTIONS, lazyConnect: false, autoResubscribe: false });
}

/** Refuses a client that cannot run commands, before the first lock fails on it. */
export function checkClient(client: RedisClient): void {
  if ((client as { mode?: string }).mode === 'subscriber') {
    throw new LockConfigurationError(
      'Expected `connection` to be a client that runs commands, got one in subscriber mode; give the module another client.',
    );
  }
}

/** Ends a connection that is ours; resolves when its socket is gone, or soon. */
export async function closeClient(client: RedisClient): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'wait') return client.disconnect(false);
  const ended = new Promise<void>((resolve) => {
    client.once('end', resolve);
    setTimeout(resolve, 500).unref();
  });
  client.disconnect(false);
  await ended;
}
