import { LockConfigurationError } from '../../core/lock.errors.js';
import { refuse, shortened } from '../../core/read-options.js';
import { withoutUrl } from './plain-options.js';
import { type RedisClusterOptions, type RedisConnectionOptions } from './redis-connection.js';

type Given = Readonly<Record<string, unknown>>;

/** What ioredis 5.3 to 6 and iovalkey know; an option that is not here may only be misspelt. */
const OF_SERVER = {
  url: true, host: true, port: true, path: true, username: true, password: true, db: true, tls: true, family: true, connectionName: true,
  connectTimeout: true, disconnectTimeout: true, socketTimeout: true, keepAlive: true, noDelay: true, protocol: true, replyMapping: true,
  stringNumbers: true, disableClientInfo: true, clientInfoTag: true, maxLoadingRetryTime: true, familyFallback: true, Connector: true,
  autoResubscribe: true, autoResendUnfulfilledCommands: true, reconnectOnError: true, commandTimeout: true, blockingTimeout: true,
  blockingTimeoutGrace: true, maxRetriesPerRequest: true, offlineQueue: true, commandQueue: true, monitor: true, keyPrefix: true,
  natMap: true, lazyConnect: true, enableReadyCheck: true, enableOfflineQueue: true, enableAutoPipelining: true,
  autoPipeliningIgnoredCommands: true, scripts: true, himportFieldsets: true, showFriendlyErrorStack: true, readOnly: true,
  retryStrategy: true, sentinels: true, name: true, role: true, sentinelUsername: true, sentinelPassword: true, sentinelTLS: true,
  enableTLSForSentinelMode: true, sentinelCommandTimeout: true, sentinelRetryStrategy: true, sentinelReconnectStrategy: true,
  sentinelMaxConnections: true, preferredSlaves: true, updateSentinels: true, failoverDetector: true,
} satisfies Record<keyof RedisConnectionOptions, true>; // prettier-ignore

const OF_CLUSTER = {
  cluster: true, redisOptions: true, clusterRetryStrategy: true, clusterNodeRetryStrategy: true, scaleReads: true, maxRedirections: true,
  retryDelayOnFailover: true, retryDelayOnClusterDown: true, retryDelayOnTryAgain: true, retryDelayOnMoved: true, keyPrefix: true,
  slotsRefreshTimeout: true, slotsRefreshInterval: true, shardedSubscribers: true, useSRVRecords: true, resolveSrv: true, natMap: true,
  dnsLookup: true, lazyConnect: true, enableReadyCheck: true, enableOfflineQueue: true, enableAutoPipelining: true, scripts: true,
  autoPipeliningIgnoredCommands: true, himportFieldsets: true, showFriendlyErrorStack: true,
} satisfies Record<keyof RedisClusterOptions, true>; // prettier-ignore

/** What other libraries and modules call these options. */
const WRITE: Readonly<Record<string, string>> = {
  uri: 'url', connectionString: 'url', redisUrl: 'url', hostname: 'host', server: 'host', user: 'username', pass: 'password', auth: 'password',
  auth_pass: 'password', database: 'db', socket: '{ host, port } themselves', nodes: 'cluster', rootNodes: 'cluster', startupNodes: 'cluster',
  clusterNodes: 'cluster', sentinelRootNodes: 'sentinels', masterName: 'name', RESP: 'protocol', ssl: 'tls', prefix: 'keyPrefix',
  client: 'the client itself as `connection`', config: 'its values', options: 'its values', connection: 'its value',
  token: 'the redis:// or rediss:// URL of the database, not that of its REST API',
}; // prettier-ignore

const PLACES = ['url', 'host', 'path', 'sentinels', 'cluster'];
const NUMBERS = ['connectTimeout', 'disconnectTimeout', 'socketTimeout', 'commandTimeout', 'sentinelCommandTimeout', 'keepAlive', 'family', 'db']; // prettier-ignore

/**
 * Checks options of a connection: each has a known name, and together they say where Redis is. What a library does not know, it
 * ignores, and connects to this machine.
 * @throws LockConfigurationError
 */
export function checkOptions(options: Given, name: string): void {
  const isCluster = isSet(options['cluster']);
  checkNames(options, isCluster ? OF_CLUSTER : { ...OF_SERVER, cluster: true }, name);
  if (isCluster) return checkCluster(options, name);
  checkPlace(options, name);
  if (isSet(options['sentinels'])) checkSentinels(options, name);
  checkNumbers(options, name);
  withoutUrl(options, name);
}

function checkCluster({ cluster, redisOptions }: Given, name: string): void {
  if (!Array.isArray(cluster) || cluster.length === 0) {
    throw new LockConfigurationError(`Expected the \`cluster\` of ${name} to be a list of some of its nodes.`);
  }
  cluster.forEach((node: unknown, i) => {
    const isAddress = typeof node === 'number' || (typeof node === 'string' && node !== '');
    if (!isAddress) checkAddress(node, `\`cluster[${i}]\` of ${name}`);
  });
  if (!isSet(redisOptions)) return;
  if (typeof redisOptions !== 'object') refuse('redisOptions', redisOptions, 'an object');
  checkNames(redisOptions as Given, OF_SERVER, `\`redisOptions\` of ${name}`);
  checkNumbers(redisOptions as Given, `\`redisOptions\` of ${name}`);
}

function checkSentinels({ sentinels, name: master }: Given, name: string): void {
  if (!Array.isArray(sentinels) || sentinels.length === 0) {
    throw new LockConfigurationError(`Expected the \`sentinels\` of ${name} to be a list of some of them.`);
  }
  if (typeof master !== 'string' || master === '') {
    throw new LockConfigurationError(`Expected ${name} to have the \`name\` of the master beside its \`sentinels\`.`);
  }
  sentinels.forEach((sentinel, i) => checkAddress(sentinel, `\`sentinels[${i}]\` of ${name}`));
}

function checkAddress(address: unknown, name: string): void {
  if (typeof address !== 'object' || address === null) {
    throw new LockConfigurationError(`Expected ${name} to be an address, as { host, port }, got ${typeof address}.`);
  }
  checkPlace(address as Given, name);
}

/** A variable that is not set is the usual reason for a place that is undefined. */
function checkPlace(given: Given, name: string): void {
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
      `Expected \`port\` of ${name} to be a number from 1 to 65535, got \`${shortened(String(port))}\`.`,
    );
  }
  if (PLACES.some((place) => isSet(given[place]))) return;
  const missing = PLACES.find((place) => place in given);
  if (missing === undefined && isSet(port)) return;
  const got =
    missing === undefined ? 'none of them' : `\`${missing}\` without a value, as of a variable that is not set`;
  throw new LockConfigurationError(
    `Expected ${name} to say where Redis is, by \`url\`, \`host\`, \`path\`, \`sentinels\` or \`cluster\`, got ${got}.`,
  );
}

/** Node throws for a time limit that is a text when the connection begins, where nothing catches it. */
function checkNumbers(given: Given, name: string): void {
  const wrong = NUMBERS.find((option) => isSet(given[option]) && !Number.isFinite(given[option]));
  if (wrong === undefined || (wrong === 'db' && /^\d+$/.test(String(given[wrong])))) return;
  refuse(wrong, given[wrong], `a number in ${name}`);
}

function checkNames(given: Given, known: object, name: string): void {
  const unknown = Object.keys(given).find((one) => !Object.hasOwn(known, one));
  if (unknown === undefined) return;
  throw new LockConfigurationError(`Unknown option \`${shortened(unknown)}\` of ${name}. ${adviceOn(unknown, known)}`);
}

function adviceOn(unknown: string, known: object): string {
  if ('cluster' in known && 'redisOptions' in known && unknown in OF_SERVER)
    return 'Write it in `redisOptions`, beside `cluster`.';
  const write = Object.hasOwn(WRITE, unknown) ? WRITE[unknown] : undefined;
  if (write !== undefined) return `Write ${/[ ]/.test(write) ? write : `\`${write}\``} instead.`;
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

const isSet = (value: unknown): boolean => value !== undefined && value !== null;
