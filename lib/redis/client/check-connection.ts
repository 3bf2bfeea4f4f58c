import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { reading, refuse, shortened, shown } from '../../core/read-options.js';
import { reasonOf } from '../../core/reporter.js';
import { libraryOf } from './client-libraries.js';
import { checkClient, FORMS, hasMethod, type ServerPlace } from './client-library.js';
import { isRedisUrl, withoutUrl } from './plain-options.js';
import {
  type RedisAddress,
  type RedisClusterOptions,
  type RedisConnectionOptions,
  type RedisNodeAddress,
} from './redis-connection.js';
import { MAX_LIMIT_MS } from '../timing.js';

type Given = Readonly<Record<string, unknown>>;

/** The options of ioredis 5.3 to 6 and iovalkey; any other option may be a typo. */
const OF_PLACE = { url: true, host: true, port: true, path: true, sentinels: true };

const OF_ACCESS = {
  username: true, password: true, db: true, tls: true, family: true, connectionName: true,
  connectTimeout: true, disconnectTimeout: true, socketTimeout: true, keepAlive: true, noDelay: true, protocol: true, replyMapping: true,
  stringNumbers: true, disableClientInfo: true, clientInfoTag: true, maxLoadingRetryTime: true, familyFallback: true, Connector: true,
  autoResubscribe: true, autoResendUnfulfilledCommands: true, reconnectOnError: true, commandTimeout: true, blockingTimeout: true,
  blockingTimeoutGrace: true, maxRetriesPerRequest: true, offlineQueue: true, commandQueue: true, monitor: true,
  natMap: true, lazyConnect: true, enableReadyCheck: true, enableOfflineQueue: true, enableAutoPipelining: true,
  autoPipeliningIgnoredCommands: true, scripts: true, himportFieldsets: true, showFriendlyErrorStack: true, readOnly: true,
  retryStrategy: true, name: true, role: true, sentinelUsername: true, sentinelPassword: true, sentinelTLS: true,
  enableTLSForSentinelMode: true, sentinelCommandTimeout: true, sentinelRetryStrategy: true, sentinelReconnectStrategy: true,
  sentinelMaxConnections: true, preferredSlaves: true, updateSentinels: true, failoverDetector: true,
} satisfies Record<Exclude<keyof RedisConnectionOptions, keyof typeof OF_PLACE>, true>; // prettier-ignore

const OF_SERVER = { ...OF_PLACE, ...OF_ACCESS, cluster: true };
const OF_NODE = { host: true, port: true };

const OF_CLUSTER = {
  cluster: true, redisOptions: true, clusterRetryStrategy: true, clusterNodeRetryStrategy: true, scaleReads: true, maxRedirections: true,
  retryDelayOnFailover: true, retryDelayOnClusterDown: true, retryDelayOnTryAgain: true, retryDelayOnMoved: true,
  slotsRefreshTimeout: true, slotsRefreshInterval: true, shardedSubscribers: true, useSRVRecords: true, resolveSrv: true, natMap: true,
  dnsLookup: true, lazyConnect: true, enableReadyCheck: true, enableOfflineQueue: true, enableAutoPipelining: true, scripts: true,
  autoPipeliningIgnoredCommands: true, himportFieldsets: true, showFriendlyErrorStack: true,
} satisfies Record<keyof RedisClusterOptions, true>; // prettier-ignore

const CLUSTER = '`cluster: [{ host, port }]`';

/** The prefix of a client would not apply to channels, and two instances with different prefixes would not exclude each other. */
const KEY_PREFIX = 'the `keyPrefix` of the module, next to `connection`,';

/** The names of these options in other libraries and modules. */
const WRITE: Readonly<Record<string, string>> = {
  uri: 'url', connectionString: 'url', redisUrl: 'url', hostname: 'host', server: 'host', ip: 'host', address: 'host', user: 'username', pass: 'password', auth: 'password',
  auth_pass: 'password', database: 'db', socket: '{ host, port } themselves', nodes: CLUSTER, rootNodes: CLUSTER, startupNodes: CLUSTER,
  clusterNodes: CLUSTER, sentinelRootNodes: '`sentinels: [{ host, port }]`', masterName: 'name', RESP: 'protocol', ssl: 'tls',
  keyPrefix: KEY_PREFIX, prefix: KEY_PREFIX,
  client: 'the client itself as `connection`', config: 'its values', options: 'its values', connection: 'its value',
  token: 'the redis:// or rediss:// URL of the database, not that of its REST API',
}; // prettier-ignore

const PLACES = ['url', 'host', 'path', 'sentinels', 'cluster'];
const TEXTS = ['username', 'password', 'connectionName', 'sentinelUsername', 'sentinelPassword'];
const LIMIT = {
  expected: `a number from 0 to ${MAX_LIMIT_MS}`,
  accepts: (value: unknown): boolean => Number.isFinite(value) && Number(value) >= 0 && Number(value) <= MAX_LIMIT_MS,
};
const NUMBERS: Readonly<Record<string, { readonly expected: string; readonly accepts: (value: unknown) => boolean }>> = {
  connectTimeout: LIMIT, disconnectTimeout: LIMIT, socketTimeout: LIMIT, commandTimeout: LIMIT, sentinelCommandTimeout: LIMIT,
  keepAlive: LIMIT, slotsRefreshInterval: LIMIT,
  family: { expected: '0, 4 or 6', accepts: (value) => value === 0 || value === 4 || value === 6 },
  // It may come from the environment, as a text. Redis refuses `01`.
  db: { expected: 'a whole number from 0', accepts: (value) => /^(0|[1-9]\d{0,8})$/.test(String(value)) },
}; // prettier-ignore

/**
 * Checks the options of a connection: each must have a known name, and together they must locate Redis. A library ignores
 * an option that it does not support, and connects to this machine.
 * @throws LockConfigurationError
 */
function checkOptions(options: Given, name: string): void {
  const isCluster = isSet(options['cluster']);
  checkNames(options, isCluster ? OF_CLUSTER : OF_SERVER, name);
  if (isCluster) return checkCluster(options, name);
  checkPlace(options, name);
  if (isSet(options['sentinels'])) checkSentinels(options, name);
  checkTexts(options, name);
  checkTls(options, name);
  checkNumbers(withoutUrl(options, name) as Given, name);
}

function checkCluster(options: Given, name: string): void {
  const { cluster, redisOptions } = withoutUrl(options, name) as Given;
  if (!Array.isArray(cluster) || cluster.length === 0) {
    throw new LockConfigurationError(
      `Expected the \`cluster\` of ${name} to be a list with at least one of its nodes.`,
    );
  }
  for (const [i, node] of cluster.entries()) checkNode(node, `\`cluster[${i}]\` of ${name}`);
  checkNumbers(options, name);
  if (!isSet(redisOptions)) return;
  if (typeof redisOptions !== 'object') refuse('redisOptions', redisOptions, 'an object');
  checkNames(redisOptions as Given, OF_ACCESS, `\`redisOptions\` of ${name}`);
  checkNumbers(redisOptions as Given, `\`redisOptions\` of ${name}`);
  checkTexts(redisOptions as Given, `\`redisOptions\` of ${name}`);
  checkTls(redisOptions as Given, `\`redisOptions\` of ${name}`);
}

function checkSentinels({ sentinels, name: master }: Given, name: string): void {
  if (!Array.isArray(sentinels) || sentinels.length === 0) {
    throw new LockConfigurationError(`Expected the \`sentinels\` of ${name} to be a list with at least one of them.`);
  }
  if (typeof master !== 'string' || master === '') {
    throw new LockConfigurationError(`Expected ${name} to have the \`name\` of the master with its \`sentinels\`.`);
  }
  for (const [i, sentinel] of sentinels.entries()) checkNode(sentinel, `\`sentinels[${i}]\` of ${name}`);
}

/** Checks the address of a node of a cluster or of a sentinel. */
function checkNode(address: unknown, name: string): void {
  if (!isPlainObject(address)) {
    const got = typeof address === 'string' ? shown(address) : describe(address);
    throw new LockConfigurationError(`Expected ${name} to be one address, as { host, port }, got ${got}.`);
  }
  const copy = { ...address };
  checkNames(copy, OF_NODE, name);
  checkPlace(copy, name, ['host']);
}

/** An unset environment variable is the usual reason for an undefined address. */
function checkPlace(given: Given, name: string, places = PLACES): void {
  for (const place of ['url', 'host', 'path']) {
    const value = given[place];
    if (isSet(value) && (typeof value !== 'string' || value.trim() === '')) {
      throw new LockConfigurationError(
        `Expected \`${place}\` of ${name} to be a text, got ${typeof value === 'string' ? 'an empty one' : typeof value}.`,
      );
    }
  }
  const { port } = given;
  if (isSet(port) && !(/^\d+$/.test(String(port)) && Number(port) >= 1 && Number(port) <= 65_535)) {
    throw new LockConfigurationError(
      `Expected \`port\` of ${name} to be a number from 1 to 65535, got ${shown(String(port))}.`,
    );
  }
  if (places.some((place) => isSet(given[place]))) return;
  const missing = places.find((place) => place in given);
  if (missing === undefined && isSet(port)) return;
  const got =
    missing === undefined
      ? 'none of them'
      : `\`${missing}\` without a value, such as an environment variable that is not set`;
  throw new LockConfigurationError(
    `Expected ${name} to have the address of Redis in one of its own properties: \`${places.join('`, `')}\`, got ${got}.`,
  );
}

/** node-redis takes no number as a password: its error would count as an outage. The value is a secret. */
function checkTexts(given: Given, name: string): void {
  const wrong = TEXTS.find((option) => isSet(given[option]) && typeof given[option] !== 'string');
  if (wrong === undefined) return;
  const got = `a value of type ${typeof given[wrong]}`;
  throw new LockConfigurationError(`Expected \`${wrong}\` of ${name} to be a text, got ${got}.`);
}

/** A certificate or a cipher that Node cannot use would count as an outage. The error of Node may end with the value: a passphrase. */
function checkTls(given: Given, name: string): void {
  for (const option of ['tls', 'sentinelTLS']) {
    const tls = given[option] as SecureContextOptions & { readonly secureContext?: unknown };
    if (!isSet(tls) || typeof tls === 'boolean') continue;
    if (typeof tls !== 'object') refuse(option, tls, `an object of options for \`tls.connect\` in ${name}`);
    if (tls.secureContext !== undefined) continue;
    try {
      createSecureContext(tls);
    } catch (error) {
      const reason = reasonOf(error).replace(/\. Received .*/s, '');
      const text = `Expected \`${option}\` of ${name} to be options of \`tls.connect\`, which refuses them: ${reason}.`;
      throw new LockConfigurationError(text);
    }
  }
}

/**
 * With a time limit given as text, or below 0, Node throws when the connection begins, where the error cannot be caught. A timer that is
 * too long fires at once. Another wrong number would count as an outage.
 */
function checkNumbers(given: Given, name: string): void {
  for (const [option, { expected, accepts }] of Object.entries(NUMBERS)) {
    const value = given[option];
    if (isSet(value) && !accepts(value)) refuse(option, value, `${expected} in ${name}`);
  }
}

function checkNames(given: Given, known: object, name: string): void {
  const unknown = Object.keys(given).find((one) => !Object.hasOwn(known, one));
  if (unknown === undefined) return;
  throw new LockConfigurationError(`Unknown option \`${shortened(unknown)}\` of ${name}. ${adviceOn(unknown, known)}`);
}

function adviceOn(unknown: string, known: object): string {
  const write = Object.hasOwn(WRITE, unknown) ? WRITE[unknown]! : unknown;
  if (known === OF_NODE && write !== 'host' && (write !== unknown || unknown === 'url'))
    return 'Write { host, port } instead.';
  if (known === OF_CLUSTER && Object.hasOwn(OF_ACCESS, write)) {
    return `Write ${write === unknown ? 'it' : `\`${write}\``} in \`redisOptions\`, next to \`cluster\`.`;
  }
  if (write !== unknown && /[ ]/.test(write)) return `Write ${write} instead.`;
  if (write !== unknown && Object.hasOwn(known, write)) return `Write \`${write}\` instead.`;
  const nearest = Object.keys(known).find((one) => isNear(unknown.toLowerCase(), one.toLowerCase()));
  if (nearest !== undefined) return `Write \`${nearest}\` instead.`;
  return 'Leave it out. If it is an option of a newer client, pass a client: `connection: new Redis({ … })`.';
}

/** Whether two names differ in one letter, or in the order of two. */
function isNear(one: string, other: string): boolean {
  let [start, a, b] = [0, one.length, other.length];
  while (start < Math.min(a, b) && one[start] === other[start]) start += 1;
  for (; Math.min(a, b) > start && one[a - 1] === other[b - 1]; b -= 1) a -= 1;
  const [left, right] = [one.slice(start, a), other.slice(start, b)];
  return (left.length <= 1 && right.length <= 1) || (left.length === 2 && left === `${right[1]}${right[0]}`);
}

/**
 * Whether an object has its own properties. A promise, a `URL` or another library's client has no options as own properties, and
 * options that are inherited or defined by a class are lost when they are copied: all of these would lead to this machine.
 */
function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  // Not by identity: options may come from another realm.
  return prototype === null || (Object.getPrototypeOf(prototype) === null && nameOf(prototype) === 'Object');
}

const nameOf = (value: object): string => (value as { readonly constructor?: Function }).constructor?.name ?? '';

/** An unusable connection or address, for error texts. */
function describe(value: unknown): string {
  if (typeof value === 'string') {
    return /^https?:/.test(value)
      ? 'the URL of a REST API, which holds no locks; pass the redis:// or rediss:// URL of the database'
      : 'a string that is no such URL';
  }
  if (value instanceof Promise) return 'a promise (await it)';
  if (value instanceof URL) return 'a URL object (pass its `href`)';
  if (typeof value !== 'object' || value === null) return String(value);
  const kind =
    nameOf(value) === 'Object' ? 'an object that inherits its properties' : `an object of class ${nameOf(value)}`;
  return `${kind}; pass a plain object with its values, such as { host: config.host, port: config.port }`;
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

/**
 * Checks the option `connection` before anything connects.
 * @throws LockConfigurationError that names what was given, but never a URL, which may contain a password
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
  if (library) return checkClient(library, connection as object, name);
  // The copy, as the libraries get it: it lacks properties that are not enumerable, or made by a proxy.
  if (isPlainObject(connection)) return checkOptions({ ...connection }, name);
  if (typeof connection === 'string' && isRedisUrl(connection))
    return checkNumbers(withoutUrl(connection, name) as Given, name);
  throw new LockConfigurationError(`Expected ${name} to be ${forms}, got ${describe(connection)}.`);
}

/** Clients that look like those of a supported library, but are not. */
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
    what: 'a pool of node-redis, which chooses a connection for each command',
    write: 'Pass what `createClient` returns',
    is: (value) => hasMethod(value, 'evalSha') && hasMethod(value, 'execute'),
  },
  {
    what: 'the legacy view of one of node-redis',
    write: 'Pass the client itself, and not what its `legacy()` returns',
    is: (value) => hasMethod(value, 'evalSha') && hasMethod(value, 'EVALSHA') && !hasMethod(value, 'duplicate'),
  },
  {
    what: 'one of ioredis 4',
    write: 'Install ioredis 5 or 6',
    is: (value) =>
      hasMethod(value, 'clearAddedScriptHashesCleanInterval') ||
      (hasMethod(value, 'evalsha') && 'dropBufferSupport' in ((value['options'] as object | undefined) ?? {})),
  },
  {
    what: 'one of ioredis-mock, which is not a Redis server',
    write: "In tests, use `RedisLockTestingModule`, or `connection: 'memory'`",
    is: (value) => hasMethod(value, 'evalsha') && 'subscriberMode' in value && 'keyData' in value,
  },
  {
    what: 'one that sends commands over HTTP, such as that of Upstash',
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

/** Whether two descriptions name one server. Different names of one host are detected later, by the run id of the server. */
function sameAddress(a: unknown, b: unknown): boolean {
  const known = new Set(addressesOf(a));
  return addressesOf(b).some((address) => known.has(address));
}

/** Two groups of sentinels are the same when they share the name and a sentinel: each identifies its masters by name. */
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
