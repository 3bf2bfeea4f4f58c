import { LockConfigurationError } from '../../core/lock.errors.js';
import { reading } from '../../core/read-options.js';
import { checkOptions, describe, isPlainObject } from './check-options.js';
import { libraryOf } from './client-libraries.js';
import { FORMS, type ServerPlace, hasMethod } from './client-library.js';
import { isRedisUrl, withoutUrl } from './plain-options.js';
import { type RedisAddress, type RedisNodeAddress } from './redis-connection.js';

/**
 * Checks the option `connection` before anything connects.
 * @throws LockConfigurationError that says what was given; never a URL, which may hold a password
 */
export function checkConnection(connection: unknown): void {
  reading('The option `connection`', () => checkAll(connection));
}

function checkAll(connection: unknown): void {
  if (!Array.isArray(connection)) return checkOne(connection, '`connection`', `${FORMS}, or 'memory'`);
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
  if (node === 'memory') {
    throw new LockConfigurationError(
      `Expected ${name} to be one master of a quorum, got 'memory', the locks of this process; use it by itself.`,
    );
  }
  checkOne(node, name);
  const library = libraryOf(node);
  // A client of ioredis has a method called `cluster`.
  const isCluster = library ? library.isCluster(node as object) : (node as { cluster?: unknown }).cluster !== undefined;
  if (!isCluster) return;
  throw new LockConfigurationError(`Expected ${name} to be one master of a quorum, got a cluster; use it by itself.`);
}

function checkOne(connection: unknown, name: string, forms = FORMS): void {
  checkSupported(connection, name);
  const library = libraryOf(connection);
  if (library) return library.checkClient(connection as object, name);
  // The copy, as the libraries get one: it lacks what is hidden, or made by a proxy.
  if (isPlainObject(connection)) return checkOptions({ ...connection }, name);
  if (typeof connection === 'string' && isRedisUrl(connection)) return void withoutUrl(connection, name);
  throw new LockConfigurationError(`Expected ${name} to be ${forms}, got ${describe(connection)}.`);
}

/** Clients that look like one of a supported library, and are not. */
const UNSUPPORTED: readonly { readonly what: string; readonly write: string; is(value: Record<string, unknown>): boolean }[] = [
  {
    what: 'one of redis 3',
    write: 'Install redis 5 or 6',
    is: (value) => hasMethod(value, 'internal_send_command'),
  },
  {
    what: 'one of redis 4',
    write: 'Install redis 5 or 6',
    is: (value) => typeof value['isOpen'] === 'boolean' && hasMethod(value, 'sendCommand') && !hasMethod(value, 'destroy'),
  },
  {
    what: 'one of ioredis 4',
    write: 'Install ioredis 5 or 6',
    is: (value) =>
      hasMethod(value, 'clearAddedScriptHashesCleanInterval') ||
      (hasMethod(value, 'evalsha') && 'dropBufferSupport' in ((value['options'] as object | undefined) ?? {})),
  },
  {
    what: 'one of ioredis-mock, which is no Redis',
    write: "In tests, use `RedisLockTestingModule`, or `connection: 'memory'`",
    is: (value) => hasMethod(value, 'evalsha') && 'subscriberMode' in value && 'keyData' in value,
  },
  {
    what: 'one that sends commands by HTTP, such as that of Upstash',
    write: 'Pass the redis:// or rediss:// URL of the database',
    is: (value) => hasMethod(value, 'evalsha') && !hasMethod(value, 'duplicate') && 'client' in value && 'opts' in value,
  },
]; // prettier-ignore

function checkSupported(value: unknown, name: string): void {
  if (typeof value !== 'object' || value === null) return;
  const found = UNSUPPORTED.find((one) => one.is(value as Record<string, unknown>));
  if (!found) return;
  throw new LockConfigurationError(
    `Expected ${name} to be a client of ioredis 5 or 6, iovalkey, or redis 5 or 6, got ${found.what}. ${found.write}.`,
  );
}

/** Whether two descriptions name one server. Another name of the same host is noticed later, by the run id of its server. */
function sameAddress(a: unknown, b: unknown): boolean {
  const known = new Set(addressesOf(a));
  return addressesOf(b).some((address) => known.has(address));
}

/** Two groups of sentinels are the same when they have the name and a sentinel in common: each knows its masters by name. */
function addressesOf(node: unknown): readonly string[] {
  const { sentinels, name, path, host, port } = placeOf(node);
  if (!Array.isArray(sentinels)) return [path ?? addressOf({ host, port }, 6379)];
  return sentinels.map((sentinel) => `sentinel ${name} of ${addressOf(sentinel, 26379)}`);
}

const placeOf = (node: unknown): ServerPlace =>
  libraryOf(node)?.placeOf(node as object) ?? (withoutUrl(node as RedisAddress) as ServerPlace);

/** Without a host, the libraries connect to `localhost`. */
function addressOf(address: RedisNodeAddress | null, defaultPort: number): string {
  const host = typeof address?.host === 'string' ? address.host.toLowerCase() : 'localhost';
  return `${host}:${address?.port ?? defaultPort}`;
}
