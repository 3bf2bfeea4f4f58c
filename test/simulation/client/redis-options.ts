import { type RedisOptions } from 'ioredis';

/** The defaults of ioredis 6. */
const DEFAULTS = {
  host: 'localhost',
  port: 6379,
  db: 0,
  connectTimeout: 10_000,
  disconnectTimeout: 2_000,
  enableOfflineQueue: true,
  enableReadyCheck: true,
  autoResendUnfulfilledCommands: true,
  autoResubscribe: true,
  maxRetriesPerRequest: 20,
  maxLoadingRetryTime: 10_000,
  retryStrategy: (times: number): number | null => Math.min(times * 50, 2_000),
  sentinelRetryStrategy: (times: number): number | null => Math.min(times * 10, 1_000),
};

export type Options = typeof DEFAULTS & RedisOptions;

/** The options of a client, with the defaults. */
export const optionsOf = (given: RedisOptions): Options => ({
  ...DEFAULTS,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
});
