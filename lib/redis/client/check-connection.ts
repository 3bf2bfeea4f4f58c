import { LockConfigurationError } from '../../core/lock.errors.js';
import { reading } from '../../core/read-options.js';
import { libraryOf } from './client-libraries.js';
import { FORMS, type ServerPlace } from './client-library.js';
import { type RedisNodeAddress } from './redis-connection.js';

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
  const library = libraryOf(connection);
  if (library) return library.checkClient(connection as object, name);
  if (isPlainObject(connection)) return checkOptions(connection, name);
  if (typeof connection === 'string' && /^(rediss?|unix):\/\//.test(connection)) return;
  const got = typeof connection === 'string' ? 'a string that is no such URL' : describe(connection);
  throw new LockConfigurationError(`Expected ${name} to be ${forms}, got ${got}.`);
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
  const known = new Set(addressesOf(a));
  return addressesOf(b).some((address) => known.has(address));
}

/** Two groups of sentinels are the same when they have the name and a sentinel in common: each knows its masters by name. */
function addressesOf(node: unknown): readonly string[] {
  const { sentinels, name, path, host, port } = placeOf(node);
  if (!Array.isArray(sentinels)) return [path ?? addressOf({ host, port }, 6379)];
  return sentinels.map((sentinel) => `sentinel ${name} of ${addressOf(sentinel, 26379)}`);
}

function placeOf(node: unknown): ServerPlace {
  const library = libraryOf(node);
  if (library) return library.placeOf(node as object);
  return typeof node === 'string' ? placeOfUrl(node) : (node as ServerPlace);
}

/** One that cannot be read is refused when it is opened. */
function placeOfUrl(text: string): ServerPlace {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) return { path: text };
  if (url.protocol === 'unix:') return { path: decodeURIComponent(url.pathname) };
  const { hostname } = url;
  return { host: hostname === '' ? undefined : hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 6379) };
}

/** Without a host, the libraries connect to `localhost`. */
function addressOf(address: RedisNodeAddress | null, defaultPort: number): string {
  const host = typeof address?.host === 'string' ? address.host.toLowerCase() : 'localhost';
  return `${host}:${address?.port ?? defaultPort}`;
}
