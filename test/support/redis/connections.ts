import { Redis, type RedisOptions } from 'ioredis';
import { createClient } from 'redis';
import { type RedisConnection } from '../../../lib/index.js';
import { SOON_CLOSED, closeLater, openAdmin } from '../apps/lock-app.js';
import { redisUrl } from '../topologies/topology.js';

/** A client that the application passes to the module. */
export function givenClient(url: string, options: RedisOptions): Redis {
  const client = new Redis(url, { ...SOON_CLOSED, ...options });
  client.on('error', () => undefined);
  const duplicate = client.duplicate.bind(client);
  const copies: Redis[] = [client];
  let isOver = false;
  // A connection that is left open would keep this process alive; one test is about those alone.
  client.duplicate = (override) => {
    const copy = duplicate(override);
    copies.push(copy);
    if (isOver) copy.disconnect();
    return copy;
  };
  const close = async (): Promise<void> => {
    isOver = true;
    for (const copy of copies) copy.disconnect();
  };
  closeLater({ close });
  return client;
}

/** A client of node-redis that the application passes to the module. */
function givenNodeRedis(url: string, options: object = {}) {
  const client = createClient({ url, ...options });
  client.on('error', () => undefined);
  client.connect().catch(() => undefined);
  const close = async (): Promise<void> => {
    // A socket that still waits for its host would live on.
    client.once('connect', () => client.destroy());
    client.destroy();
  };
  closeLater({ close });
  return client;
}

/** A client whose subscriber connection takes another route than its commands. */
export const clientWithSubscriberAt = (subscriberUrl: string, url = redisUrl()): Redis =>
  Object.assign(openAdmin(url), { duplicate: () => new Redis(subscriberUrl) });

export const CONNECTIONS: Record<string, (url: string) => RedisConnection> = {
  'an own connection': (url) => url,
  'a given client': (url) => givenClient(url, {}),
  'a given client that retries for ever': (url) => givenClient(url, { maxRetriesPerRequest: null }),
  'a given client that retries for ever, without a queue': (url) =>
    givenClient(url, { maxRetriesPerRequest: null, enableOfflineQueue: false }),
  'a given client of node-redis': (url) => givenNodeRedis(url),
};

const never = (): null => null;
const IN_AN_HOUR = { retryStrategy: () => 3_600_000 };
/** Connections that are configured to reconnect late, or never. */
export const RELUCTANT: Record<string, (url: string) => RedisConnection> = {
  'an own connection that gives up': (url) => ({ port: Number(new URL(url).port), retryStrategy: never }),
  'an own connection that is late': (url) => ({ port: Number(new URL(url).port), ...IN_AN_HOUR }),
  'a given client that gives up': (url) => givenClient(url, { retryStrategy: never }),
  'a given client that is late': (url) => givenClient(url, IN_AN_HOUR),
  'a given client that is late and queues nothing': (url) =>
    givenClient(url, { ...IN_AN_HOUR, enableOfflineQueue: false }),
  'a given client of node-redis that gives up': (url) => givenNodeRedis(url, { socket: { reconnectStrategy: false } }),
  'a given client of node-redis that is late': (url) =>
    givenNodeRedis(url, { socket: { reconnectStrategy: 3_600_000 } }),
};
