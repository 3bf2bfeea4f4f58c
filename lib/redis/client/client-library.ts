import { type Clock } from '../../core/clock.js';
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
  /** Returns the client of a client that was given: always the same one. It is ours to close if that is not shared. */
  of(client: object): RedisClient;
  /**
   * Opens a connection of our own; it connects when it is told to.
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
  /** Whether commands are sent by a given client; otherwise only its options are used, for connections of our own. */
  isShared(client: object): boolean;
  /** Where a single client leads. */
  placeOf(client: object): ServerPlace;
  /** Whether a package of the library is installed, so that it can open connections. */
  isInstalled(): boolean;
  clientsOf(parts: ClientParts): Clients;
}

export const hasMethod = (value: unknown, name: string): boolean =>
  typeof (value as Record<string, unknown> | null | undefined)?.[name] === 'function';
