import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { messageOf } from '../core/reporter.js';
import { checkConnection } from '../redis/client/check-connection.js';
import { readPlainOptions } from '../redis/client/plain-options.js';
import { type RedisConnection } from '../redis/client/redis-connection.js';
import { type ServerAddress } from '../redis/client/server-address.js';
import { CONNECT_TIMEOUT_MS } from '../redis/timing.js';
import { type Environment, type Given, PLACES, variableOf } from './read-arguments.js';
import { UsageError } from './usage.js';

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
export function connectionOf(
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
    throw new UsageError(
      messageOf(error)
        .replaceAll(/(the URL of )?`connection`/g, name)
        .replaceAll('`connection[', `\`${name}[`),
    );
  }
}
