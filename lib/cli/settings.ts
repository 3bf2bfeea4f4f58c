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

export const EXIT = {
  ok: 0,
  /** A negative answer: nothing found or released, or the doctor found a problem. */
  no: 1,
  /** The command line or the environment is wrong, or the command was not allowed to do it. */
  usage: 2,
  /** Redis could not be reached, did not answer in time, or refused. */
  redis: 3,
  bug: 70,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Invalid words or variables. Its text never contains a value that may be a password. */
export class UsageError extends Error {}

export const COMMANDS = {
  ls: { args: '[PREFIX]', options: ['limit'], about: 'the locks that are held or waited for' },
  inspect: { args: 'KEY', options: [], about: 'one lock: its holders, and its queue in order' },
  watch: { args: '[PREFIX]', options: ['limit', 'interval'], about: 'like ls, refreshed until Ctrl-C' },
  history: { args: '[KEY]', options: ['limit'], about: 'what has happened to the locks, or to one, newest first' },
  jobs: { args: '[PREFIX]', options: ['limit'], about: 'the jobs with `oncePer`: the last run of each' },
  run: { args: 'KEY', options: ['board', 'job'], about: 'run a job by hand, through the board of the app' },
  release: { args: 'KEY', options: ['by', 'yes'], about: 'take a lock away from its holders; asks first' },
  doctor: { args: '', options: [], about: 'check the servers, the permissions and the settings' },
} as const satisfies Readonly<
  Record<string, { readonly args: string; readonly options: readonly string[]; readonly about: string }>
>;

export type CommandName = keyof typeof COMMANDS;

const commandLines = Object.entries(COMMANDS).map(
  ([name, { args, about }]) => `  ${`${name} ${args}`.padEnd(18)}${about[0]!.toUpperCase()}${about.slice(1)}.`,
);

export const HELP = `Usage: nestjs-redis-lock COMMAND [options]

Shows the locks of nestjs-redis-lock in Redis.

Commands
${commandLines.join('\n')}

Where the locks are: one of these (default: --url redis://127.0.0.1:6379)
  --url URL              redis://, rediss:// or unix://, without a password.
  --cluster NODES        Some nodes of a Redis Cluster: host:port,host:port
  --sentinel SENTINELS   Sentinels: host:port,host:port; with --sentinel-name.
  --sentinel-name NAME   The name by which the sentinels know the master.
  --quorum URLS          The independent masters of a quorum: url,url,url

How to log in
  --username NAME        The user in Redis.
  --password-file FILE   A file with the password. There is no option for the password itself: other users of the
                         machine could read it. Set REDIS_LOCK_PASSWORD, or give a file.
  --tls                  Use TLS, as rediss:// does.
  --tls-ca FILE          The certificate of the authority (PEM); this and the next three imply --tls.
  --tls-cert FILE        The certificate of this client (PEM).
  --tls-key FILE         Its private key (PEM).
  --tls-servername NAME  The name in the certificate of the server, if it is not the host.
  --sentinel-tls         Also use TLS to the sentinels.

Options
  --prefix PREFIX        The \`keyPrefix\` of the app (default: lock:).
  --hash-tag TAG         The result of the app's \`hashTag\` for the key, if it has that option.
  --timeout MS           How long Redis may take to answer (default: 5000).
  --json                 Print JSON. \`watch\` prints one object for each change.
  --read-only            Change nothing: \`release\` and \`run\` are refused, and \`doctor\` skips checks that write.
  --limit N              Maximum number of rows (default: 1000; history: 100).
  --interval MS          The refresh interval of watch (default: 1000).
  --board URL            The address of the board, without a password (run).
  --job NAME             The job, if the key has several, or none that has run yet (run).
  --by NAME              Your name in the history (release; default: the user and the host of this machine).
  --yes                  Do not ask (release).
  -h, --help             Print this.
  --version              Print the version.

From the environment
  Each option from --url to --timeout, --json and --read-only has a variable: REDIS_LOCK_URL, REDIS_LOCK_TLS_CA, ...
  Options on the command line come first. A URL in the environment may contain a password. Further variables:
  REDIS_LOCK_PASSWORD, REDIS_LOCK_SENTINEL_USERNAME, REDIS_LOCK_SENTINEL_PASSWORD, REDIS_LOCK_BOARD (an address that
  may contain a password), REDIS_LOCK_BOARD_AUTHORIZATION (a header, for example: Bearer ...).
  With NO_COLOR, nothing is coloured.

Exit codes
  0  Done: found, released, run, or no problem.
  1  A negative answer: nothing found, nothing released, not run, a failed run, or the doctor found a problem.
  2  Wrong usage, or not allowed by --read-only.
  3  Redis or the board could not be reached, did not answer in time, or refused.
  70 Internal error: please report it, with the output.
`;

/** The options, from the help text: an option before a word in capitals has a value. */
const OPTIONS = Array.from(
  HELP.matchAll(/^ {2}(?:-h, )?--(?<name>[a-z-]+)(?<value> [A-Z]+)?/gm),
  ({ groups }) => [groups!['name']!, groups!['value'] ? 'string' : 'boolean'] as const,
);

/** The options that have no variable in the environment. */
const OF_COMMAND_LINE: readonly string[] = [
  'help',
  'version',
  ...Object.values(COMMANDS).flatMap(({ options }) => options),
];

/** Each is refused with specific advice: its value may be a password. */
const SECRET = ['password', 'pass', 'auth', 'sentinel-password'];

/** The options for the place of the locks; at most one is given. */
const PLACES = ['url', 'cluster', 'sentinel', 'quorum'] as const;

type Given = Readonly<
  // prettier-ignore
  Partial<Record<
    | (typeof PLACES)[number] | 'sentinel-name' | 'username' | 'password-file' | 'tls-ca' | 'tls-cert' | 'tls-key'
    | 'tls-servername' | 'prefix' | 'hash-tag' | 'timeout' | 'limit' | 'interval' | 'board' | 'job' | 'by', string>> &
    Partial<Record<'tls' | 'sentinel-tls' | 'json' | 'read-only' | 'yes' | 'help' | 'version', boolean>>
>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** A command; `word` is its key or prefix, undefined where it was left out. */
type Call = Exclude<ReturnType<typeof readArguments>, string>;

export function readArguments(args: readonly string[], env: Environment) {
  const { values, positionals } = parse(args);
  const given = values as Given;
  const [name, ...words] = positionals;
  if (given.help || name === 'help') return 'help' as const;
  if (given.version) return 'version' as const;
  const command = commandOf(name);
  const { args: takes, options } = COMMANDS[command];
  checkWords(command, takes, words);
  const fromCommandLine = new Set(Object.keys(values));
  const foreign = OF_COMMAND_LINE.find(
    (one) => fromCommandLine.has(one) && !(options as readonly string[]).includes(one),
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
  const options = Object.fromEntries(OPTIONS.map(([name, type]) => [name, { type }]));
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
    const text = most === 0 ? 'no words after it' : `one word after it: ${takes}`;
    throw new UsageError(`\`${command}\` takes ${text}. Put quotes around a key with spaces.`);
  }
  if (takes === 'KEY' && words.length === 0)
    throw new UsageError(`\`${command}\` needs the key of a lock. See --help.`);
}

export const variableOf = (option: string): string => `REDIS_LOCK_${option.toUpperCase().replaceAll('-', '_')}`;

/** A place on the command line replaces that of the environment, which may be of another kind. */
function fromEnvironment(env: Environment, given: Given): Given {
  const isPlaced = PLACES.some((place) => given[place] !== undefined);
  const read: Record<string, string | boolean> = {};
  for (const [option, type] of OPTIONS) {
    const value = env[variableOf(option)];
    if (OF_COMMAND_LINE.includes(option) || value === undefined || value === '') continue;
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

type Access = ReturnType<typeof accessOf>;

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

function accessOf(given: Given, env: Environment, timeoutMs: number) {
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
    throw visiblePasswordError(name, `REDIS_LOCK_PASSWORD, or set ${variableOf(name.slice('--'.length))}`);
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

const visiblePasswordError = (option: string, instead: string): UsageError =>
  new UsageError(
    `A password on the command line can be read by other users of this machine: leave it out of ${option}, and set ` +
      `${instead} to the whole URL. Also change the password.`,
  );

/** An unreadable URL may also contain a password. */
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

/** Where the board is, and the header with which a request logs in. */
export interface Board {
  readonly url: URL;
  readonly authorization: string | undefined;
}

function boardOf(given: Given, env: Environment): Board | undefined {
  const text = given.board ?? env['REDIS_LOCK_BOARD'];
  if (!text) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const name = given.board === undefined ? 'REDIS_LOCK_BOARD' : '--board';
  if (!url || !/^https?:$/.test(url.protocol)) throw new UsageError(`Expected ${name} to be a URL with http or https.`);
  const { username, password } = url;
  if (given.board !== undefined && password !== '') {
    throw visiblePasswordError('--board', 'REDIS_LOCK_BOARD');
  }
  // `fetch` refuses a URL that contains them.
  [url.username, url.password] = ['', ''];
  const login = [username, password].map((part) => decodedOf(part, name)).join(':');
  const basic = login === ':' ? undefined : `Basic ${Buffer.from(login).toString('base64')}`;
  const header = env['REDIS_LOCK_BOARD_AUTHORIZATION']?.trim();
  // The error of `fetch` would contain the value.
  if (header && !/^[\t\x20-\x7e\x80-\xff]+$/.test(header)) {
    throw new UsageError('Expected REDIS_LOCK_BOARD_AUTHORIZATION to be one line of a header, such as: Bearer ...');
  }
  return { url, authorization: header || basic };
}

function decodedOf(part: string, name: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new UsageError(`Expected the user and the password in ${name} to be percent-encoded: a % is %25.`);
  }
}

/** The settings of a command: all options, checked, with the defaults. */
export type Settings = Readonly<ReturnType<typeof settingsOf>>;

/** Checks the options of a call and fills in the defaults. */
export function settingsOf(call: Call, env: Environment) {
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
    // The topology determines the master.
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
    board: call.command === 'run' ? boardOf(given, env) : undefined,
    job: given.job,
  };
}
