import { itWhen } from '../topologies/topology.js';

/** The library of clients that LIBRARY names: our own connections and those of applications come from it. */
export const LIBRARY = (process.env['LIBRARY'] ?? 'ioredis') as 'ioredis' | 'iovalkey' | 'node-redis';

const isNodeRedis = LIBRARY === 'node-redis';

/**
 * For tests of what only ioredis and iovalkey have: a `keyPrefix` in options, `stringNumbers` and `replyMapping` (node-redis refuses
 * these options), a cluster client that sends in pipelines by choice, and a client that tells when its application selects another database.
 */
export const itLikeIoredis = itWhen(!isNodeRedis);

/**
 * Leaves out the cases with a client of the application, unless FAULTS_GIVEN is set (`npm run test:exhaustive`): most faults are
 * handled behind the port of clients, and the tests of its options, of moving addresses and of hung servers have these cases always.
 */
export function withGiven<C extends readonly [string, ...unknown[]]>(cases: readonly C[]): C[] {
  const ownOnly = cases.filter(([name]) => !/\bgiven\b/.test(name));
  return process.env['FAULTS_GIVEN'] || ownOnly.length === 0 ? [...cases] : ownOnly;
}

/** node-redis does not tell which database `select` has chosen. */
export const isSilentAboutSelect = isNodeRedis;

/** For tests of how node-redis does without. */
export const itOnNodeRedis = itWhen(isNodeRedis);
