import { startRedisServer } from '../redis.mjs';
import { startTogether, stopAll } from './servers.mjs';

/**
 * Starts independent servers. The `connection` is the list of their URLs.
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
