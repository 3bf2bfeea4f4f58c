import { startRedisServer } from '../redis.mjs';
import { startTogether, stopAll } from './servers.mjs';

/**
 * Starts servers that know nothing of each other. The connection has their URLs.
 * @param {number} size
 * @returns {Promise<{
 *   connection: string[],
 *   servers: import('../redis.mjs').StartedRedis[],
 *   stop: () => Promise<void>,
 * }>}
 */
export async function startQuorum(size) {
  const servers = await startTogether(Array.from({ length: size }, () => () => startRedisServer()));
  return { connection: servers.map(({ url }) => url), servers, stop: () => stopAll(servers) };
}
