import { LockConfigurationError } from './core/lock.errors.js';
import {
  type LockDefaults,
  type OnUnavailable,
  checkConnectionName,
  checkDuration,
  checkLockOptions,
  checkOnUnavailable,
} from './core/lock-options.js';
import type { RedisConnection } from './redis/redis-client.js';

/** The options of `RedisLockModule`. All durations are whole milliseconds. */
export interface RedisLockModuleOptions {
  /** The name of this connection, for apps with several; the default one has none. */
  name?: string;
  /**
   * Whether all modules of the app may inject the service; the decorators need it wherever they are used.
   * @default true
   */
  isGlobal?: boolean;
  /**
   * A URL, ioredis options, or a client. A client that was given is used and never closed.
   * @default 'redis://127.0.0.1:6379'
   */
  connection?: RedisConnection;
  /**
   * What all keys in Redis begin with. Apps that share a Redis and are not to share locks need different ones.
   * @default 'lock:'
   */
  keyPrefix?: string;
  /**
   * For how long Redis grants a lock; the watchdog renews it at a third. Longer: a dead holder blocks others longer.
   * Shorter: more renewals, and a shorter pause of the process loses the lock.
   * @default 30_000
   */
  leaseMs?: number;
  /**
   * How long a call waits for a busy lock; 0 is one try, `Infinity` waits for ever.
   * @default 10_000
   */
  waitMs?: number;
  /**
   * After it the watchdog stops and the signal fires, so that hung work does not hold a lock for ever.
   * @default Infinity
   */
  maxHoldMs?: number;
  /**
   * How long a shutdown waits for holders to finish.
   * @default 10_000
   */
  drainMs?: number;
  /**
   * What a decorated call does when Redis cannot be asked: `fail` with a `LockStoreError`, `skip` (resolve `undefined`
   * without running), or `run-unlocked`, which gives up exclusion for availability and warns each time. Wrong
   * credentials and the like always fail.
   * @default 'fail'
   */
  onUnavailable?: OnUnavailable;
  /**
   * How long Redis remembers the last fencing token of an unused lock, at about 200 bytes each. Shorter than a plausible
   * step of the server's clock back, tokens may repeat.
   * @default 600_000
   */
  keepMs?: number;
}

/** The options with nothing left open. */
export interface ResolvedModuleOptions extends LockDefaults {
  readonly name: string | undefined;
  readonly connection: RedisConnection;
  readonly keyPrefix: string;
  readonly drainMs: number;
  readonly keepMs: number;
  readonly onUnavailable: OnUnavailable;
}

const NAMES = [
  'name', 'isGlobal', 'connection', 'keyPrefix', 'leaseMs', 'waitMs', 'maxHoldMs', 'drainMs', 'keepMs',
  'onUnavailable',
]; // prettier-ignore

/**
 * Checks the options of the module and fills what is left open.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function resolveModuleOptions(options: RedisLockModuleOptions): ResolvedModuleOptions {
  checkIsObject(options);
  const unknown = Object.keys(options).find((name) => !NAMES.includes(name));
  if (unknown !== undefined) {
    throw new LockConfigurationError(
      `Unknown option \`${unknown}\` of RedisLockModule; expected one of ${NAMES.join(', ')}.`,
    );
  }
  const { name, connection = 'redis://127.0.0.1:6379', keyPrefix = 'lock:', leaseMs, waitMs, maxHoldMs } = options;
  const { drainMs = 10_000, keepMs = 600_000, onUnavailable = 'fail' } = options;
  checkOnUnavailable(onUnavailable);
  checkLockOptions({ leaseMs, waitMs, maxHoldMs });
  checkDuration(drainMs, 'drainMs', { min: 0, max: 3_600_000 });
  checkDuration(keepMs, 'keepMs', { min: 60_000, max: 31 * 24 * 3_600_000 });
  checkKeyPrefix(keyPrefix);
  checkConnection(connection);
  const filled = { leaseMs: leaseMs ?? 30_000, waitMs: waitMs ?? 10_000, maxHoldMs: maxHoldMs ?? Infinity };
  return { name, connection, keyPrefix, drainMs, keepMs, onUnavailable, ...filled };
}

/** Checks what is said where the module is imported. */
export function checkExtras(options: { name?: unknown; isGlobal?: unknown } | undefined): void {
  checkIsObject(options);
  const { name, isGlobal } = options as { name?: unknown; isGlobal?: unknown };
  checkConnectionName(name, 'name');
  if (isGlobal === undefined || typeof isGlobal === 'boolean') return;
  throw new LockConfigurationError(`Expected \`isGlobal\` to be true or false, got ${JSON.stringify(isGlobal)}.`);
}

function checkIsObject(options: unknown): void {
  if (typeof options === 'object' && options !== null) return;
  throw new LockConfigurationError(`Expected the options of RedisLockModule to be an object, got ${String(options)}.`);
}

function checkKeyPrefix(keyPrefix: unknown): void {
  const valid = typeof keyPrefix === 'string' && keyPrefix.length > 0 && keyPrefix.length <= 128;
  if (valid && !/[{}\p{Surrogate}]/u.test(keyPrefix)) return;
  throw new LockConfigurationError(
    `Expected \`keyPrefix\` to be a string of 1 to 128 characters without braces, got ${JSON.stringify(keyPrefix)}.`,
  );
}

function checkConnection(connection: unknown): void {
  if (Array.isArray(connection)) {
    throw new LockConfigurationError('Expected `connection` to be one Redis, got a list; a quorum is not supported.');
  }
  if (isRedisClient(connection) || isPlainObject(connection)) return;
  if (typeof connection === 'string' && /^(rediss?|unix):\/\//.test(connection)) return;
  const got = typeof connection === 'string' ? 'a string that is no such URL' : describe(connection);
  throw new LockConfigurationError(
    `Expected \`connection\` to be a redis:// or rediss:// URL, ioredis options or an ioredis client, got ${got}.`,
  );
}

/** A client by what it can do; ioredis itself is not imported here. */
const isRedisClient = (value: unknown): boolean =>
  typeof (value as { evalsha?: unknown } | null)?.evalsha === 'function';

/** A promise, a `URL` or another library's client would be read as options without a host, which is the local Redis. */
function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // By the constructor's name: options may come from another realm.
  return prototype === null || (prototype as object).constructor.name === 'Object';
}

const describe = (value: unknown): string =>
  value instanceof Promise
    ? 'a promise (await it)'
    : value instanceof URL
      ? 'a URL object (pass its `href`)'
      : String(value);
