import { itWhen } from '../topologies/topology.js';

/** The library of clients that LIBRARY names: our own connections and those of applications come from it. */
export const LIBRARY = (process.env['LIBRARY'] ?? 'ioredis') as 'ioredis' | 'iovalkey' | 'node-redis';

const isNodeRedis = LIBRARY === 'node-redis';

/**
 * For tests of what only ioredis and iovalkey have: `stringNumbers` and `replyMapping` (node-redis refuses these options), and a cluster
 * client that sends in pipelines by choice.
 */
export const itLikeIoredis = itWhen(!isNodeRedis);

/** For tests of how node-redis does without. */
export const itOnNodeRedis = itWhen(isNodeRedis);
