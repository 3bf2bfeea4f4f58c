import { type Clock } from '../../core/clock.js';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { shortened } from '../../core/read-options.js';
import { type Randomness } from '../../core/randomness.js';
import { type Reporter } from '../../core/reporter.js';
import { type RedisClient } from './redis-client.js';
import { type RedisAddress, type RedisConnectionOptions } from './redis-connection.js';

/** What `connection` may be, for error texts. */
export const FORMS =
  'a redis:// or rediss:// URL, ioredis options, `{ cluster: [nodes] }` or a client of ioredis, iovalkey or node-redis';

/** What the clients of one store share. */
export interface ClientParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly reporter: Reporter;
}

/** Where a client leads, in the words of the options. */
export type ServerPlace = Pick<RedisConnectionOptions, 'host' | 'port' | 'path' | 'sentinels' | 'name'>;

/** The clients of one store, behind which a library works. */
export interface Clients {
  /**
   * Opens a duplicate of a client of the application, with the database of its options and without its key prefix; it connects when
   * `connect` is called. Nothing that becomes of the client reaches it.
   */
  copyOf(client: object): RedisClient;
  /**
   * Opens a connection of our own; it connects when `connect` is called.
   * @throws LockConfigurationError for a URL that cannot be read, or for an option without a counterpart in the library
   */
  open(connection: RedisAddress): RedisClient;
}

/** A library of Redis clients behind the port. */
export interface ClientLibrary {
  /** What people call it. */
  readonly name: string;
  /**
   * Whether a value is meant to be a client of this library: it has methods that no options and no other clients have. Never by
   * `instanceof`: the application and this package may load two copies. `checkClient` checks whether the store can use it.
   */
  isClient(value: unknown): value is object;
  /**
   * Checks a client before the first lock fails on it.
   * @throws LockConfigurationError that calls the client `name`
   */
  checkClient(client: object, name: string): void;
  isCluster(client: object): boolean;
  /** Where a single client leads. */
  placeOf(client: object): ServerPlace;
  /** Whether a package of the library is installed, so that it can open connections. */
  isInstalled(): boolean;
  clientsOf(parts: ClientParts): Clients;
}

export const hasMethod = (value: unknown, name: string): boolean =>
  typeof (value as Record<string, unknown> | null | undefined)?.[name] === 'function';

/**
 * Checks what a client returned as its duplicate.
 * @throws LockConfigurationError
 */
export function checkDuplicate<T extends object>(duplicate: T | undefined, method: string): T {
  if (hasMethod(duplicate, method)) return duplicate!;
  throw new LockConfigurationError(
    'Expected `connection` to be a client that can be duplicated, got one whose `duplicate()` returns no client, as that of a mock. ' +
      "Pass the client itself. In tests, use `RedisLockTestingModule`, or `connection: 'memory'`.",
  );
}

/** The duplicates of a client lack its key prefix: locks would move when an application changes it. */
export function warnOfKeyPrefix(
  options: { readonly keyPrefix?: unknown } | undefined,
  { reporter }: ClientParts,
): void {
  const { keyPrefix } = options ?? {};
  const prefix = Buffer.isBuffer(keyPrefix) ? keyPrefix.toString() : keyPrefix;
  if (typeof prefix !== 'string' || prefix === '') return;
  const text = `The key prefix "${shortened(prefix)}" of the given Redis client does not apply to locks.`;
  reporter.warn(`${text} Write it in the \`keyPrefix\` of the module, where all instances have the same.`);
}
