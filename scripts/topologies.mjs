// Starts whole Redis topologies on loopback ports, for tests. Every `connection` is plain JSON, and fits the option `connection`.
// If you restart a server of a topology (with its `port` and `args`), stop the new one yourself.
import { startRedisServer } from './redis.mjs';
import { startTogether, stopAll } from './topologies/servers.mjs';

export { startCluster } from './topologies/cluster.mjs';
export { documentedRights, startSecured } from './topologies/secured.mjs';
export { startSentinels } from './topologies/sentinels.mjs';

/** @typedef {import('./topologies/cluster.mjs').StartedCluster} StartedCluster */
/** @typedef {import('./topologies/secured.mjs').StartedSecured} StartedSecured */

/**
 * Starts independent servers. The `connection` is the list of their URLs.
 * @param {number} size
 * @returns {Promise<{
 *   connection: string[],
 *   servers: import('./redis.mjs').StartedRedis[],
 *   stop: () => Promise<void>,
 * }>}
 */
export async function startQuorum(size) {
  const servers = await startTogether(Array.from({ length: size }, () => () => startRedisServer()));
  return { connection: servers.map(({ url }) => url), servers, stop: () => stopAll(servers) };
}
