import { LockConfigurationError } from '../../core/lock.errors.js';
import { type ClientLibrary, type ClientParts } from './client-library.js';
import { ioredisLibrary, iovalkeyLibrary } from './ioredis/ioredis-library.js';
import { nodeRedisLibrary } from './node-redis/node-redis-library.js';
import { type RedisClient } from './redis-client.js';
import { type RedisAddress, type RedisConnection } from './redis-connection.js';

/** The first one that is installed opens the connections of our own. */
const LIBRARIES: readonly ClientLibrary[] = [ioredisLibrary, iovalkeyLibrary, nodeRedisLibrary];

/** The library that a value is meant to be a client of; undefined for options, a URL and anything else. */
export const libraryOf = (value: unknown): ClientLibrary | undefined =>
  LIBRARIES.find((library) => library.isClient(value));

/** The client of a connection, and whether it is that of the application: such a client is never closed. */
export interface StoreClient {
  readonly client: RedisClient;
  readonly isGiven: boolean;
}

/**
 * Takes the client that was given, or opens one.
 * @throws LockConfigurationError when the store cannot use the client, or when no library can open one
 */
export function clientOf(connection: RedisConnection, parts: ClientParts): StoreClient {
  const library = libraryOf(connection);
  if (!library) return { client: openClient(connection as RedisAddress, parts), isGiven: false };
  library.checkClient(connection as object, '`connection`');
  const isGiven = library.isShared(connection as object);
  return { client: library.clientsOf(parts).of(connection as object), isGiven };
}

function openClient(connection: RedisAddress, parts: ClientParts): RedisClient {
  const library = LIBRARIES.find((one) => one.isInstalled());
  if (library) return library.clientsOf(parts).open(connection);
  throw new LockConfigurationError(
    'No Redis client is installed that could open `connection`: ioredis 5 or 6, iovalkey, or redis 5 or 6. Install one: ' +
      'npm install ioredis (or redis, or iovalkey). ' +
      'A bundle that leaves these packages out can pass a client as `connection`.',
  );
}
