import { LockConfigurationError } from '../../../core/lock.errors.js';
import { reading } from '../../../core/read-options.js';
import type { Ioredis } from './ioredis-options.js';

const FORMS = 'a redis:// or rediss:// URL, ioredis options, `{ cluster: [nodes] }` or an ioredis client';

/** The methods of an ioredis client that the store uses. */
const CLIENT_METHODS = ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'] as const;

/**
 * Whether a value is meant to be a client: it has methods that no options have. `instanceof` fails when the application and
 * this package load two copies of ioredis. `checkClient` checks whether the store can use it.
 */
export const isRedisClient = (value: unknown): value is Ioredis =>
  hasMethod(value, 'evalsha') || hasMethod(value, 'duplicate');

const hasMethod = (value: unknown, name: string): boolean =>
  typeof (value as Record<string, unknown> | null | undefined)?.[name] === 'function';

/**
 * Checks a client before the first lock fails on it.
 * @throws LockConfigurationError for one that lacks a method, or that subscribes and thus runs no commands
 */
export function checkClient(client: Ioredis, name = '`connection`'): void {
  const missing = CLIENT_METHODS.filter((method) => !hasMethod(client, method));
  if (missing.length > 0) {
    const got = `an object that looks like a client, but lacks ${missing.map((method) => `\`${method}()\``).join(', ')}`;
    throw new LockConfigurationError(
      `Expected ${name} to be ${FORMS}, got ${got}. Pass the ioredis client itself, not a wrapper of some of its methods.`,
    );
  }
  if ((client as { mode?: string }).mode !== 'subscriber') return;
  throw new LockConfigurationError(
    `Expected ${name} to be a client that runs commands, got one in subscriber mode; give the module another client.`,
  );
}

/**
 * Checks the option `connection` before anything connects.
 * @throws LockConfigurationError that says what was given; never a URL, which may hold a password
 */
export function checkConnection(connection: unknown): void {
  reading('The option `connection`', () => checkAll(connection));
}

function checkAll(connection: unknown): void {
  if (!Array.isArray(connection)) return checkOne(connection, '`connection`');
  if (connection.length === 0) {
    throw new LockConfigurationError('Expected `connection` to list the masters of a quorum, got an empty list.');
  }
  for (const [i, node] of connection.entries()) checkMaster(node, `\`connection[${i}]\``);
  for (const [i, node] of connection.entries()) {
    const first = connection.findIndex((other) => other === node || sameAddress(other, node));
    if (first === i) continue;
    throw new LockConfigurationError(
      `Expected independent masters in \`connection\`, got the same one as [${first}] and [${i}]: it would vote twice.`,
    );
  }
}

function checkMaster(node: unknown, name: string): void {
  checkOne(node, name);
  const { cluster, isCluster } = node as { cluster?: unknown; isCluster?: unknown };
  // A client has a method called `cluster`.
  if (isRedisClient(node) ? isCluster !== true : cluster === undefined) return;
  throw new LockConfigurationError(`Expected ${name} to be one master of a quorum, got a cluster; use it by itself.`);
}

function checkOne(connection: unknown, name: string): void {
  if (isRedisClient(connection)) return checkClient(connection, name);
  if (isPlainObject(connection)) return checkOptions(connection, name);
  if (typeof connection === 'string' && /^(rediss?|unix):\/\//.test(connection)) return;
  const got = typeof connection === 'string' ? 'a string that is no such URL' : describe(connection);
  throw new LockConfigurationError(`Expected ${name} to be ${FORMS}, got ${got}.`);
}

function checkOptions({ cluster, ...options }: { cluster?: unknown }, name: string): void {
  if ('url' in options) {
    throw new LockConfigurationError(
      `Expected ${name} to be ${FORMS}, got an object with a \`url\`; pass the URL itself.`,
    );
  }
  if (cluster === undefined || (Array.isArray(cluster) && cluster.length > 0)) return;
  throw new LockConfigurationError(`Expected the \`cluster\` of ${name} to be a list of some of its nodes.`);
}

/** A promise, a `URL` or another library's client would be read as options without a host, which is the local Redis. */
function isPlainObject(value: unknown): value is { cluster?: unknown } {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // By the constructor's name: options may come from another realm.
  return prototype === null || (prototype as { constructor?: Function }).constructor?.name === 'Object';
}

const describe = (value: unknown): string =>
  value instanceof Promise
    ? 'a promise (await it)'
    : value instanceof URL
      ? 'a URL object (pass its `href`)'
      : typeof value === 'object' && value !== null
        ? 'an object of another kind'
        : String(value);

/** Whether two descriptions name one server. Another name of the same host is noticed later, by the run id of its server. */
function sameAddress(a: unknown, b: unknown): boolean {
  if (typeof a === 'string' || typeof b === 'string') return a === b;
  const known = new Set(addressesOf(a));
  return addressesOf(b).some((address) => known.has(address));
}

/** Two groups of sentinels are the same when they have the name and a sentinel in common: each knows its masters by name. */
function addressesOf(node: unknown): readonly string[] {
  const given = node as { options?: unknown };
  const { sentinels, name, path, ...at } = (isRedisClient(node) ? given.options : given) as ServerOptions;
  if (!Array.isArray(sentinels)) return [path ?? addressOf(at, 6379)];
  return sentinels.map((sentinel) => `sentinel ${name} of ${addressOf(sentinel, 26379)}`);
}

interface Address {
  readonly host?: unknown;
  readonly port?: number | string | null;
}

interface ServerOptions extends Address {
  readonly path?: string | null;
  readonly sentinels?: readonly (Address | null)[] | null;
  readonly name?: string;
}

/** Without a host, ioredis connects to `localhost`. */
function addressOf(address: Address | null, defaultPort: number): string {
  const host = typeof address?.host === 'string' ? address.host.toLowerCase() : 'localhost';
  return `${host}:${address?.port ?? defaultPort}`;
}
