import { startRedisServer } from '../redis.mjs';
import { startTogether, stopAll } from './servers.mjs';

/** Starts independent servers. */
export async function startQuorum(size) {
  const servers = await startTogether(Array.from({ length: size }, () => () => startRedisServer()));
  return { connection: servers.map(({ url }) => url), servers, stop: () => stopAll(servers) };
}
