import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { parseArgs } from 'node:util';
import { HISTORY_LIMIT } from '../core/history/history-entry.js';
import { KEY_PREFIX, OWNER } from '../core/option-checks.js';
import { printable } from '../core/printable.js';
import { messageOf } from '../core/reporter.js';
import { checkConnection } from '../redis/client/check-connection.js';
import { readPlainOptions } from '../redis/client/plain-options.js';
import { type RedisConnection } from '../redis/client/redis-connection.js';
import { type ServerAddress } from '../redis/client/server-address.js';
import { CONNECT_TIMEOUT_MS } from '../redis/timing.js';
import { type CommandName, COMMANDS, UsageError } from './usage.js';

/** The options that may also come from the environment, as `REDIS_LOCK_<NAME>`. */
const OF_BOTH = {
  url: 'string',
  cluster: 'string',
  sentinel: 'string',
  'sentinel-name': 'string',
  quorum: 'string',
  username: 'string',
  'password-file': 'string',
  tls: 'boolean',
  'tls-ca': 'string',
  'tls-cert': 'string',
  'tls-key': 'string',
  'tls-servername': 'string',
  'sentinel-tls': 'boolean',
  prefix: 'string',
  'hash-tag': 'string',
  timeout: 'string',
  json: 'boolean',
  'read-only': 'boolean',
} as const;

const OF_COMMAND_LINE = {
  limit: 'string',
  interval: 'string',
  by: 'string',
  yes: 'boolean',
  help: 'boolean',
  version: 'boolean',
} as const;

/** Each is refused with advice of its own: its value may be a password. */
const SECRET = ['password', 'pass', 'auth', 'sentinel-password'];

/** Which of these says where the locks are; at most one is given. */
const PLACES = ['url', 'cluster', 'sentinel', 'quorum'] as const;

type Kinds = typeof OF_BOTH & typeof OF_COMMAND_LINE;

/** The options as they were given, whether on the command line or in the environment. */
type Given = {
  readonly [name in keyof Kinds]?: (Kinds[name] extends 'string' ? string : boolean) | undefined;
};

/** A command with its words. `given` also says which of the options came from the command line. */
export interface Call {
  readonly command: CommandName;
  /** The key or the prefix; undefined where it was left out. */
  readonly word: string | undefined;
  readonly given: Given;
  readonly fromCommandLine: ReadonlySet<string>;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the command line and the environment.
 * @throws UsageError
 */
export function readArguments(args: readonly string[], env: Environment): Call | 'help' | 'version' {
  const { values, positionals } = parse(args);
  const given = values as Given;
  const [name, ...words] = positionals;
  if (given.help || name === 'help') return 'help';
  if (given.version) return 'version';
  const command = commandOf(name);
  const { args: takes, options } = COMMANDS[command];
  checkWords(command, takes, words);
  const fromCommandLine = new Set(Object.keys(values));
  const own = Object.keys(OF_COMMAND_LINE);
  const foreign = [...fromCommandLine].find(
    (one) => own.includes(one) && !(options as readonly string[]).includes(one),
  );
  if (foreign !== undefined) throw new UsageError(`\`${command}\` has no option --${foreign}.`);
  return { command, word: words[0], given: { ...fromEnvironment(env, given), ...given }, fromCommandLine };
}

function parse(args: readonly string[]) {
  const secret = args.find((arg) => SECRET.includes(/^--([^=]+)/.exec(arg)?.[1] ?? ''));
  if (secret !== undefined) {
    throw new UsageError(
      'A password on the command line can be read by other users of this machine. Set REDIS_LOCK_PASSWORD, or give ' +
        '--password-file. If you have just typed one, change it.',
    );
  }
  const kinds: Readonly<Record<string, 'string' | 'boolean'>> = { ...OF_BOTH, ...OF_COMMAND_LINE };
  const options = Object.fromEntries(Object.entries(kinds).map(([name, type]) => [name, { type }]));
  try {
    return parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
  } catch (error) {
    // The first sentence names the option; the rest of the text may contain its value.
    const [sentence = ''] = (error as Error).message.split(/\. |\n/);
    throw new UsageError(`${printable(sentence.replace(/\.$/, ''))}. See --help.`);
  }
}

function commandOf(name: string | undefined): CommandName {
  const all = Object.keys(COMMANDS);
  if (name === undefined) throw new UsageError(`Expected a command: ${all.join(', ')}. See --help.`);
  if (Object.hasOwn(COMMANDS, name)) return name as CommandName;
  // It may be a URL with a password.
  const shown = /^[\w-]{1,30}$/.test(name) ? ` \`${name}\`` : '';
  throw new UsageError(`Unknown command${shown}: expected one of ${all.join(', ')}. See --help.`);
}

function checkWords(command: CommandName, takes: string, words: readonly string[]): void {
  const most = takes === '' ? 0 : 1;
  if (words.length > most) {
    const text = most === 0 ? 'no words behind it' : `one word behind it: ${takes}`;
    throw new UsageError(`\`${command}\` takes ${text}. Put quotes around a key with spaces.`);
  }
  if (takes === 'KEY' && words.length === 0)
    throw new UsageError(`\`${command}\` needs the key of a lock. See --help.`);
}

export const variableOf = (option: string): string => `REDIS_LOCK_${option.toUpperCase().replaceAll('-', '_')}`;

/** A place on the command line replaces the one of the environment, which may be another kind of place. */
function fromEnvironment(env: Environment, given: Given): Given {
  const isPlaced = PLACES.some((place) => given[place] !== undefined);
  const read: Record<string, string | boolean> = {};
  for (const [option, type] of Object.entries(OF_BOTH)) {
    const value = env[variableOf(option)];
    if (value === undefined || value === '') continue;
    if (isPlaced && (PLACES as readonly string[]).includes(option)) continue;
    read[option] = type === 'string' ? value : readBoolean(value, option);
  }
  return read;
}

export const isOn = (value = ''): boolean => /^(1|true|yes|on)$/i.test(value);

function readBoolean(value: string, option: string): boolean {
  if (isOn(value)) return true;
  if (/^(0|false|no|off)$/i.test(value)) return false;
  throw new UsageError(`Expected ${variableOf(option)} to be 1 or 0.`);
}

/** What all connections have in common. */
interface Access {
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: ConnectionOptions | undefined;
  readonly connectTimeout: number;
}

/**
 * The option `connection` of the module, from the options of the tool.
 * @throws UsageError
 */
function connectionOf(
  given: Given,
  env: Environment,
  timeoutMs: number,
  fromCommandLine: ReadonlySet<string>,
): RedisConnection | readonly RedisConnection[] {
  const places = PLACES.filter((place) => given[place] !== undefined);
  const nameOf = (option: string): string => (fromCommandLine.has(option) ? `--${option}` : variableOf(option));
  if (places.length > 1) throw new UsageError(`Expected one of ${places.map(nameOf).join(' and ')}.`);
  const [place = 'url'] = places;
  const name = nameOf(place);
  const access = accessOf(given, env, timeoutMs);
  const text = given[place] ?? 'redis://127.0.0.1:6379';
  if (place !== 'sentinel' && (given['sentinel-name'] !== undefined || given['sentinel-tls'])) {
    throw new UsageError('--sentinel-name and --sentinel-tls need --sentinel.');
  }
  const connection = {
    url: () => serverOf(text, name, access, fromCommandLine.has('url')),
    cluster: () => ({ cluster: addressesOf(text, name, 6_379), redisOptions: access }),
    sentinel: () => sentinelsOf(given, env, access, addressesOf(text, name, 26_379)),
    quorum: () => text.split(',').map((one) => serverOf(one.trim(), name, access, fromCommandLine.has('quorum'))),
  }[place]();
  return named(name, () => {
    checkConnection(connection);
    return connection;
  });
}

function accessOf(given: Given, env: Environment, timeoutMs: number): Access {
  return {
    username: given.username,
    password: env['REDIS_LOCK_PASSWORD'] || passwordIn(given['password-file']),
    tls: tlsOf(given),
    connectTimeout: Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
  };
}

const passwordIn = (file: string | undefined): string | undefined =>
  file === undefined ? undefined : fileOf(file, 'password-file').replace(/\r?\n$/, '');

function tlsOf(given: Given): ConnectionOptions | undefined {
  const file = (option: 'tls-ca' | 'tls-cert' | 'tls-key') => {
    const path = given[option];
    return path === undefined ? {} : { [option.slice('tls-'.length)]: fileOf(path, option) };
  };
  const { 'tls-servername': servername } = given;
  const options: ConnectionOptions = {
    ...file('tls-ca'),
    ...file('tls-cert'),
    ...file('tls-key'),
    ...(servername !== undefined && { servername }),
  };
  return given.tls || Object.keys(options).length > 0 ? options : undefined;
}

function fileOf(path: string, option: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(
      `The file of --${option} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'error'}.`,
    );
  }
}

/** A URL, or `host:port`. The parts of a URL come before the other options. */
function serverOf(text: string, name: string, access: Access, isVisible: boolean): RedisConnection {
  if (!text.includes('://')) return { ...addressOf(text, name, 6_379), ...access };
  if (isVisible && hasPassword(text)) {
    throw new UsageError(
      `A password on the command line can be read by other users of this machine: leave it out of ${name}, and set ` +
        `REDIS_LOCK_PASSWORD, or set ${variableOf(name.slice('--'.length))} to the whole URL. Change the password, too.`,
    );
  }
  const { at, username, password, db, tls } = named(name, () => readPlainOptions(text, 'nestjs-redis-lock'));
  return {
    ...(at as ServerAddress),
    db,
    ...access,
    username: username ?? access.username,
    password: password ?? access.password,
    tls: tls || access.tls ? { ...tls, ...access.tls } : undefined,
  };
}

/** One that cannot be read may contain a password, too. */
const hasPassword = (text: string): boolean =>
  URL.canParse(text) ? new URL(text).password !== '' : /:\/\/[^/]*:[^/]*@/.test(text);

function sentinelsOf(given: Given, env: Environment, access: Access, sentinels: ServerAddress[]): RedisConnection {
  const name = given['sentinel-name'];
  if (name === undefined) throw new UsageError('--sentinel needs --sentinel-name, the name of the master.');
  return {
    sentinels,
    name,
    ...access,
    sentinelUsername: env['REDIS_LOCK_SENTINEL_USERNAME'] || undefined,
    sentinelPassword: env['REDIS_LOCK_SENTINEL_PASSWORD'] || undefined,
    ...(given['sentinel-tls'] && { sentinelTLS: access.tls ?? {} }),
    ...(access.tls && { enableTLSForSentinelMode: true }),
  };
}

const addressesOf = (text: string, name: string, port: number): ServerAddress[] =>
  text.split(',').map((one) => addressOf(one.trim(), name, port));

const ADDRESS = /^(?:\[(?<v6>[0-9a-f:.%\w]+)\]|(?<host>[^\s:@/[\]]+))(?::(?<port>\d{1,5}))?$/i;

function addressOf(text: string, name: string, defaultPort: number): ServerAddress {
  const { v6, host = v6, port } = ADDRESS.exec(text)?.groups ?? {};
  if (host === undefined || Number(port ?? 1) < 1 || Number(port ?? 1) > 65_535) {
    throw new UsageError(`Expected ${name} to be a list of host:port, separated by commas, without passwords.`);
  }
  return { host, port: Number(port ?? defaultPort) };
}

/** Runs a check of the module, and names the option of the tool in its error. */
function named<T>(name: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    const text = messageOf(error).replaceAll(/(the URL of )?`(connection|keyPrefix|by)`/g, name);
    throw new UsageError(text.replaceAll('`connection[', `\`${name}[`));
  }
}

/** What a command works with: all options, checked, with the defaults. */
export interface Settings {
  readonly connection: RedisConnection | readonly RedisConnection[];
  readonly isQuorum: boolean;
  readonly isCluster: boolean;
  /** Somebody besides this tool finds the master: sentinels, a cluster or a quorum. */
  readonly findsMaster: boolean;
  readonly keyPrefix: string;
  readonly hashTag: string | undefined;
  readonly timeoutMs: number;
  readonly limit: number;
  readonly intervalMs: number;
  readonly json: boolean;
  readonly readOnly: boolean;
  readonly yes: boolean;
  /** Who uses the tool, by the command line. */
  readonly by: string | undefined;
}

/**
 * Checks the options of a call and fills in the defaults.
 * @throws UsageError
 */
export function settingsOf(call: Call, env: Environment): Settings {
  const { given, fromCommandLine } = call;
  const whole = (option: 'timeout' | 'limit' | 'interval', byDefault: number, min: number, max: number): number => {
    const value = given[option];
    if (value === undefined) return byDefault;
    if (/^\d{1,9}$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
    const name = fromCommandLine.has(option) ? `--${option}` : variableOf(option);
    throw new UsageError(`Expected ${name} to be a whole number from ${min} to ${max}.`);
  };
  const { by, prefix: keyPrefix = 'lock:' } = given;
  named('--prefix', () => KEY_PREFIX.check(keyPrefix, 'keyPrefix'));
  if (by !== undefined) named('--by', () => OWNER.check(by, 'by'));
  const timeoutMs = whole('timeout', 5_000, 100, 600_000);
  const connection = connectionOf(given, env, timeoutMs, fromCommandLine);
  return {
    connection,
    isQuorum: Array.isArray(connection),
    isCluster: given.cluster !== undefined,
    findsMaster: given.cluster !== undefined || given.sentinel !== undefined || Array.isArray(connection),
    keyPrefix,
    hashTag: given['hash-tag'],
    timeoutMs,
    limit:
      call.command === 'history'
        ? whole('limit', HISTORY_LIMIT.byDefault, 1, HISTORY_LIMIT.max)
        : whole('limit', 1_000, 1, 1_000_000),
    intervalMs: whole('interval', 1_000, 100, 3_600_000),
    json: given.json ?? false,
    readOnly: given['read-only'] ?? false,
    yes: given.yes ?? false,
    by,
  };
}
