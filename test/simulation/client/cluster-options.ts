import { type ClusterOptions } from 'ioredis';

/** The defaults of ioredis 6. */
const DEFAULTS = {
  clusterRetryStrategy: (times: number): number | null => Math.min(100 + times * 2, 2_000),
  enableOfflineQueue: true,
  enableReadyCheck: true,
  maxRedirections: 16,
  retryDelayOnMoved: 0,
  retryDelayOnFailover: 100,
  retryDelayOnClusterDown: 100,
  retryDelayOnTryAgain: 100,
  slotsRefreshTimeout: 1_000,
};

export type SimClusterOptions = typeof DEFAULTS & ClusterOptions;

/** The options of a cluster client, with the defaults. */
export const clusterOptionsOf = (given: ClusterOptions): SimClusterOptions => ({
  ...DEFAULTS,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
});
