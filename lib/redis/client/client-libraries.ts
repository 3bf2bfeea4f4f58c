import { LockConfigurationError } from '../../core/lock.errors.js';
import { checkClient, type ClientLibrary } from './client-library.js';
import { ioredisLibrary, iovalkeyLibrary } from './ioredis.js';
import { nodeRedisLibrary } from './node-redis.js';
import { type RedisClient } from './cluster.js';
import { type RedisAddress, type RedisConnection } from './redis-connection.js';
import { type ClientParts } from './redis-client.js';

/** The first installed one opens our connections. */
const LIBRARIES: readonly ClientLibrary[] = [ioredisLibrary, iovalkeyLibrary, nodeRedisLibrary];

/** The library of a client; undefined for options, a URL and anything else. */
export const libraryOf = (value: unknown): ClientLibrary | undefined =>
  LIBRARIES.find((library) => library.isClient(value));

/**
 * Opens a client of the store: a duplicate of the client that the application passed in, or one by a URL or options.
 * @throws LockConfigurationError when the client cannot be duplicated, or when no library can open one
 */
export function openClient(connection: RedisConnection, parts: ClientParts): RedisClient {
  const ofApp = libraryOf(connection);
  if (ofApp) {
    checkClient(ofApp, connection as object, '`connection`');
    return ofApp.copyOf(connection as object, parts);
  }
  const library = LIBRARIES.find((one) => one.isInstalled());
  if (library) return library.open(connection as RedisAddress, parts);
  throw new LockConfigurationError(
    'No Redis client is installed that could open `connection`: ioredis 5 or 6, iovalkey, or redis 5 or 6. Install one: ' +
      'npm install ioredis (or redis, or iovalkey). ' +
      'A bundle that leaves these packages out can pass a client as `connection`.',
  );
}
