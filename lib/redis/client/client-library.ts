import { LockConfigurationError } from '../../core/lock.errors.js';
import { shortened } from '../../core/read-options.js';
import { reasonOf } from '../../core/reporter.js';
import { type RedisClient } from './cluster.js';
import { type ClientParts } from './redis-client.js';
import { type RedisAddress, type RedisConnectionOptions } from './redis-connection.js';

/** The accepted values of `connection`, for error texts. */
export const FORMS =
  'a redis:// or rediss:// URL, ioredis options, `{ cluster: [nodes] }` or a client of ioredis, iovalkey or node-redis';

/** Where a client leads, in the format of the options. */
export type ServerPlace = Pick<RedisConnectionOptions, 'host' | 'port' | 'path' | 'sentinels' | 'name'>;

/** An adapter of a library of Redis clients. */
export interface ClientLibrary {
  readonly name: string;
  /**
   * Whether a value looks like a client of this library: it has methods that neither options nor other clients have. Not by
   * `instanceof`: the application and this package may load two copies. `checkClient` checks whether the store can use it.
   */
  isClient(value: unknown): value is object;
  /** The methods that a client must have. */
  readonly methods: readonly string[];
  isCluster(client: object): boolean;
  /** Where a single client leads. */
  placeOf(client: object): ServerPlace;
  /** Whether a package of the library is installed, so that it can open connections. */
  isInstalled(): boolean;
  /**
   * Opens a duplicate of a client of the application, with the database of its options and without its key prefix; it connects when
   * `connect` is called. It does not depend on what happens to the original client.
   */
  copyOf(client: object, parts: ClientParts): RedisClient;
  /**
   * Opens a connection owned by this library; it connects when `connect` is called.
   * @throws LockConfigurationError for a URL that cannot be read, or for an option without a counterpart in the library
   */
  open(connection: RedisAddress, parts: ClientParts): RedisClient;
}

export const hasMethod = (value: unknown, name: string): boolean =>
  typeof (value as Record<string, unknown> | null | undefined)?.[name] === 'function';

/**
 * Checks a client before the first lock fails on it.
 * @throws LockConfigurationError that names the client `called`
 */
export function checkClient({ name, methods }: ClientLibrary, client: object, called: string): void {
  const missing = methods.filter((method) => !hasMethod(client, method));
  if (missing.length === 0) return;
  const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
  throw new LockConfigurationError(
    `Expected ${called} to be ${FORMS}, got ${got}. Pass the client of ${name} itself, not a wrapper of some of its methods.`,
  );
}

/**
 * Checks the duplicate that a client returned.
 * @throws LockConfigurationError
 */
export function checkDuplicate<T extends object>(duplicate: T | undefined, method: string): T {
  if (hasMethod(duplicate, method)) return duplicate!;
  throw new LockConfigurationError(
    'Expected `connection` to be a client that can be duplicated, got one whose `duplicate()` returns no client, such as a mock. ' +
      "Pass the client itself. In tests, use `RedisLockTestingModule`, or `connection: 'memory'`.",
  );
}

/** The options of TLS, with a `checkServerIdentity` that returns what it throws: Node would end the process. */
export function guarded<T extends object>(tls: T): T {
  const { checkServerIdentity: check } = tls as { readonly checkServerIdentity?: unknown };
  if (typeof check !== 'function') return tls;
  const checkServerIdentity = (...args: unknown[]): unknown => {
    try {
      return check(...args);
    } catch (error) {
      return new Error(`\`checkServerIdentity\` of \`connection\` threw \`${reasonOf(error)}\``, { cause: error });
    }
  };
  return { ...tls, checkServerIdentity };
}

/** The duplicates of a client do not use its key prefix: otherwise, changing it would change the names of the locks. */
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
