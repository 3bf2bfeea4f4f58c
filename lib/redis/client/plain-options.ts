import { LockConfigurationError } from '../../core/lock.errors.js';
import { shown } from '../../core/read-options.js';
import { CONNECT_TIMEOUT_MS } from '../timing.js';
import {
  type RedisAddress,
  type RedisClusterOptions,
  type RedisConnectionOptions,
  type RedisNatMap,
  type RedisNodeAddress,
} from './redis-connection.js';
import { type ServerAddress } from './server-address.js';

/** The contents of `connection`, for a library that does not read the options of ioredis itself. */
export interface PlainOptions extends PlainAccess {
  /** One server, a Unix socket, sentinels, or some nodes of a cluster. */
  readonly at: ServerAddress | { readonly path: string } | SentinelGroup | { readonly nodes: readonly ServerAddress[] };
  readonly natMap?: RedisNatMap | undefined;
  /** How often a cluster is queried for its slots. */
  readonly slotsRefreshInterval?: number | undefined;
}

/** How a connection to a server begins. A cluster has only database 0. */
export interface PlainAccess extends Pick<
  RedisConnectionOptions,
  'username' | 'password' | 'tls' | 'family' | 'connectionName' | 'keepAlive' | 'noDelay' | 'protocol'
> {
  readonly db: number;
  readonly connectTimeout: number;
}

interface SentinelGroup extends Pick<RedisConnectionOptions, 'username' | 'password' | 'tls'> {
  readonly sentinels: readonly ServerAddress[];
  readonly name: string;
}

type Given = Readonly<Record<string, unknown>>;

const ACCESS = ['username', 'password', 'db', 'tls', 'family', 'connectionName', 'connectTimeout', 'keepAlive', 'noDelay', 'protocol']; // prettier-ignore
const PLACE = ['host', 'port', 'path', 'natMap', 'sentinels', 'name', 'sentinelUsername', 'sentinelPassword', 'sentinelTLS']; // prettier-ignore
/** The contents of a URL: the address of one server. */
const OF_URL = ['host', 'port', 'path', 'sentinels', 'cluster'];
const OF_CLUSTER = ['cluster', 'redisOptions', 'natMap', 'slotsRefreshInterval'];

/** What our connections decide themselves, in every library: whether and when they retry, and that they do not queue. */
const DECIDED = [
  'retryStrategy', 'sentinelRetryStrategy', 'clusterRetryStrategy', 'clusterNodeRetryStrategy', 'reconnectOnError',
  'maxRetriesPerRequest', 'retryDelayOnFailover', 'lazyConnect', 'enableOfflineQueue', 'enableAutoPipelining',
  'autoPipeliningIgnoredCommands', 'autoResubscribe', 'autoResendUnfulfilledCommands', 'commandTimeout', 'disconnectTimeout',
]; // prettier-ignore

/** Whether a text begins like a URL of Redis. */
export const isRedisUrl = (text: string): boolean => /^(rediss?|unix):\/\//.test(text);

/**
 * Replaces a URL (alone, next to options or as a node of a cluster) by the equivalent options, which every library gets.
 * @throws LockConfigurationError that attributes the URL to `name`, if it cannot be read or repeats an option
 */
export function withoutUrl(
  connection: RedisAddress,
  name = '`connection`',
): RedisConnectionOptions | RedisClusterOptions {
  if (typeof connection === 'string') return readUrl(connection, name);
  const { url, ...given } = connection as RedisConnectionOptions & Partial<RedisClusterOptions>;
  if (Array.isArray(given.cluster)) {
    const nodes = [...given.cluster].map((node, i) => readNode(node, `\`cluster[${i}]\` of ${name}`));
    return { ...given, cluster: nodes };
  }
  if (url === undefined || url === null) return given;
  const ofUrl: Given = { ...readUrl(url, name) };
  const beside = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
  const inUrl = [...OF_URL, ...Object.keys(ofUrl).filter((option) => option !== 'tls')];
  const twice = inUrl.find((option) => option in beside);
  if (twice === undefined) return { ...ofUrl, ...beside };
  throw new LockConfigurationError(
    `Expected ${name} to have \`${twice}\` in its \`url\` or next to it, got both; leave one of them out.`,
  );
}

/**
 * Reads a URL, or options in the format of ioredis, for `library`, whose options have another format.
 * @throws LockConfigurationError for a URL that cannot be read, and for an option without a counterpart in the library
 */
export function readPlainOptions(connection: RedisAddress, library: string): PlainOptions {
  const given: Given = withoutUrl(connection) as Given;
  if (given['cluster'] !== undefined) return readCluster(given, library);
  refuseOthers(given, [...ACCESS, ...PLACE], library);
  return { ...accessOf(given), at: placeOf(given), natMap: given['natMap'] as RedisNatMap | undefined };
}

function readCluster(given: Given, library: string): PlainOptions {
  const {
    cluster,
    redisOptions = {},
    natMap,
    slotsRefreshInterval,
  } = given as {
    readonly cluster: readonly RedisNodeAddress[];
    readonly redisOptions?: Given;
    readonly natMap?: RedisNatMap;
    readonly slotsRefreshInterval?: number;
  };
  refuseOthers(given, OF_CLUSTER, library);
  refuseOthers(redisOptions, ACCESS, library, 'redisOptions.');
  const nodes = cluster.map((node) => serverOf(node, 6379));
  return { ...accessOf(redisOptions), db: 0, at: { nodes }, natMap, slotsRefreshInterval };
}

const accessOf = (given: Given): PlainAccess => {
  const access = Object.fromEntries(ACCESS.map((name) => [name, given[name] ?? undefined])) as unknown as PlainAccess;
  // An environment variable is a text, with which a library would also select the database 0.
  const db = Number(String(access.db ?? 0));
  return { ...access, db, connectTimeout: access.connectTimeout || CONNECT_TIMEOUT_MS };
};

function placeOf(given: Given): PlainOptions['at'] {
  const { path, sentinels, name, sentinelUsername: username, sentinelPassword: password, sentinelTLS: tls } = given;
  if (Array.isArray(sentinels)) {
    const group = { sentinels: sentinels.map((one: RedisNodeAddress) => serverOf(one, 26_379)), name };
    return { ...group, username, password, tls } as SentinelGroup;
  }
  return typeof path === 'string' ? { path } : serverOf(given, 6379);
}

/** Without a host, ioredis connects to this machine. */
const serverOf = ({ host, port }: RedisNodeAddress, defaultPort: number): ServerAddress => ({
  host: host ?? 'localhost',
  port: port ?? defaultPort,
});

/**
 * Parses a node of a cluster given as a port or a text. Anything in a URL other than the address would apply to that node only: the
 * nodes that it reports get `redisOptions`.
 */
function readNode(node: RedisNodeAddress | string | number, name: string): RedisNodeAddress {
  if (typeof node === 'number') return { port: node };
  if (typeof node !== 'string') return node;
  if (/^\d+$/.test(node)) return { port: Number(node) };
  const isUrl = /^rediss?:\/\//.test(node);
  const url = isUrl ? node : `redis://${node}`;
  if (!isUrl && (/[/?#@]/.test(node) || !URL.canParse(url))) {
    throw new LockConfigurationError(
      `Expected ${name} to be one address, as { host, port } or 'host:port', got ${shown(node)}.`,
    );
  }
  const { host, port, db, ...access } = readUrl(url, name);
  if (db) {
    throw new LockConfigurationError(`Expected ${name} to be in database 0, as all of a cluster is. Leave it out.`);
  }
  const names = Object.keys(access);
  if (names.length === 0) return { host, port };
  const options = names.map((option) => (option === 'tls' ? 'tls: {}' : option)).join(', ');
  throw new LockConfigurationError(
    `Expected ${name} to have a host and a port only, got a URL with \`${names.join('`, `')}\`. ` +
      `Write \`redisOptions: { ${options} }\` next to \`cluster\`.`,
  );
}

export function readUrl(text: string, name: string): RedisConnectionOptions {
  if (!isRedisUrl(text)) {
    const got = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text)?.[0] ?? 'another text';
    throw new LockConfigurationError(
      `Expected the URL of ${name} to begin with redis://, rediss:// or unix://, got ${got}.`,
    );
  }
  if (!URL.canParse(text)) throw unreadable(name);
  const { protocol, hostname, port, pathname, username, password, searchParams } = new URL(text);
  const parameters = Object.fromEntries(searchParams) as Given;
  const isSocket = protocol === 'unix:';
  // A missing address usually comes from an unset variable.
  if (isSocket ? hostname !== '' || pathname === '' : /^(undefined|null)?$/.test(hostname)) {
    const form = isSocket ? 'unix:///PATH' : `${protocol}//HOST:PORT`;
    throw new LockConfigurationError(
      `Expected the URL of ${name} to have the form ${form}, got one without that place.`,
    );
  }
  const db = isSocket ? '' : pathname.slice(1);
  if (!/^\d*$/.test(db)) {
    throw new LockConfigurationError(`Expected the path of the URL of ${name} to be the number of a database.`);
  }
  const named = [...searchParams.keys(), ...(db === '' ? [] : ['db'])];
  const twice = named.find((option, i) => PARAMETERS.includes(option) && named.indexOf(option) !== i);
  if (twice !== undefined) {
    throw new LockConfigurationError(
      `Expected the URL of ${name} to have \`${twice}\` once, got it several times (its path is \`db\`); leave one of them out.`,
    );
  }
  return {
    ...(isSocket ? { path: decoded(pathname, name) } : { host: hostname.replace(/^\[|\]$/g, '') }),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decoded(username, name) }),
    ...(password !== '' && { password: decoded(password, name) }),
    ...(protocol === 'rediss:' && { tls: {} }),
    ...(db !== '' && { db: Number(db) }),
    ...numbersOf(parameters, name),
  };
}

/** Providers of Redis put these into URLs. ioredis would accept any option from there, as a text, and fail on it later. */
const PARAMETERS = ['family', 'db'];

function numbersOf(parameters: Given, name: string): Given {
  const wrong = Object.keys(parameters).find(
    (one) => !PARAMETERS.includes(one) || !/^\d+$/.test(String(parameters[one])),
  );
  if (wrong === undefined) {
    return Object.fromEntries(Object.entries(parameters).map(([option, value]) => [option, Number(value)]));
  }
  throw new LockConfigurationError(
    `Expected the URL of ${name} to have no parameters except the numbers \`family\` and \`db\`, got ${shown(wrong)}; ` +
      `write options next to the URL: { url, ...options }.`,
  );
}

function decoded(text: string, name: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw unreadable(name);
  }
}

/** The error of the parser contains the whole URL, including the password. */
const unreadable = (name: string): LockConfigurationError =>
  new LockConfigurationError(
    `Expected ${name} to be a URL that can be read. Percent-encode special characters of user and password.`,
  );

function refuseOthers(given: Given, known: readonly string[], library: string, inside = ''): void {
  // ioredis also requires it with `tls`; for the other libraries, `tls` is enough.
  const isImplied = (name: string): boolean => name === 'enableTLSForSentinelMode' && given[name] === true;
  const isOther = (name: string): boolean => given[name] !== undefined && given[name] !== null && !isImplied(name);
  const name = Object.keys(given).find((one) => isOther(one) && !known.includes(one) && !DECIDED.includes(one));
  if (name === undefined) return;
  throw new LockConfigurationError(
    `${library} has no counterpart for the option \`${inside}${name}\` of \`connection\`. Leave it out, pass a client of ${library}, or install ioredis.`,
  );
}
