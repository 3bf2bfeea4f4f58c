import { LockConfigurationError } from './core/lock.errors.js';
import {
  type LockDefaults,
  type OnUnavailable,
  checkConnectionName,
  checkDuration,
  checkLockOptions,
  checkOnUnavailable,
  checkIsObject,
  checkOptionNames,
} from './core/lock.options.js';
import { type RedisConnection } from './redis/connection/redis-client.js';
import { checkConnection } from './redis-lock.connection.js';

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
   * A URL, ioredis options (also of Sentinel), `{ cluster: [nodes] }`, or a client, which is used and never closed. A list
   * names independent masters: a lock is held when more than half of them granted it (Redlock).
   * @default 'redis://127.0.0.1:6379'
   */
  connection?: RedisConnection | readonly RedisConnection[];
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
  /**
   * How many replicas have to confirm a grant (WAIT) before it counts; else it is given back and the call fails with a
   * `LockStoreError`. A grant that no replica has is lost when the master is. 0: none is asked.
   * @default 0
   */
  minReplicas?: number;
  /**
   * How long replicas may take to confirm a grant.
   * @default 500
   */
  replicaTimeoutMs?: number;
  /**
   * Gives the hash tag of a key, or undefined: keys with one tag lie in one slot of a cluster, where several of them are
   * locked in one command. All instances need the same rule; another rule makes other locks of the same keys.
   */
  hashTag?: (key: string) => string | undefined;
}

/** The options with nothing left open. */
export interface ResolvedModuleOptions extends LockDefaults {
  readonly name: string | undefined;
  readonly connection: RedisConnection | readonly RedisConnection[];
  readonly keyPrefix: string;
  readonly drainMs: number;
  readonly keepMs: number;
  readonly minReplicas: number;
  readonly replicaTimeoutMs: number;
  readonly hashTag: ((key: string) => string | undefined) | undefined;
  readonly onUnavailable: OnUnavailable;
}

const NAMES = [
  'name', 'isGlobal', 'connection', 'keyPrefix', 'leaseMs', 'waitMs', 'maxHoldMs', 'drainMs', 'keepMs',
  'onUnavailable', 'minReplicas', 'replicaTimeoutMs', 'hashTag',
]; // prettier-ignore

/**
 * Checks the options of the module and fills what is left open.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function resolveModuleOptions(options: RedisLockModuleOptions): ResolvedModuleOptions {
  checkOptionNames(options, NAMES, 'RedisLockModule');
  const { name, connection = 'redis://127.0.0.1:6379', keyPrefix = 'lock:', leaseMs, waitMs, maxHoldMs } = options;
  const { drainMs = 10_000, keepMs = 600_000, onUnavailable = 'fail', hashTag } = options;
  const { minReplicas = 0, replicaTimeoutMs = 500 } = options;
  checkOnUnavailable(onUnavailable);
  checkLockOptions({ leaseMs, waitMs, maxHoldMs });
  checkDuration(drainMs, 'drainMs', { min: 0, max: 3_600_000 });
  checkDuration(keepMs, 'keepMs', { min: 60_000, max: 31 * 24 * 3_600_000 });
  checkKeyPrefix(keyPrefix);
  checkConnection(connection);
  checkHashTag(hashTag);
  const filled = { leaseMs: leaseMs ?? 30_000, waitMs: waitMs ?? 10_000, maxHoldMs: maxHoldMs ?? Infinity };
  checkReplicas(minReplicas, replicaTimeoutMs, filled.leaseMs);
  const redis = { connection, keyPrefix, keepMs, minReplicas, replicaTimeoutMs, hashTag };
  return { name, drainMs, onUnavailable, isQuorum: Array.isArray(connection), ...redis, ...filled };
}

/** Checks what is said where the module is imported. */
export function checkExtras(options: { name?: unknown; isGlobal?: unknown } | undefined): void {
  checkIsObject(options, 'RedisLockModule');
  const { name, isGlobal } = options;
  checkConnectionName(name, 'name');
  if (isGlobal === undefined || typeof isGlobal === 'boolean') return;
  throw new LockConfigurationError(`Expected \`isGlobal\` to be true or false, got ${JSON.stringify(isGlobal)}.`);
}

function checkKeyPrefix(keyPrefix: unknown): void {
  const valid = typeof keyPrefix === 'string' && keyPrefix.length > 0 && keyPrefix.length <= 128;
  if (valid && !/[{}\p{Surrogate}]/u.test(keyPrefix)) return;
  throw new LockConfigurationError(
    `Expected \`keyPrefix\` to be a string of 1 to 128 characters without braces, got ${JSON.stringify(keyPrefix)}.`,
  );
}

function checkHashTag(hashTag: unknown): void {
  if (hashTag === undefined || typeof hashTag === 'function') return;
  throw new LockConfigurationError(`Expected \`hashTag\` to be a function of the key, got ${typeof hashTag}.`);
}

function checkReplicas(minReplicas: unknown, replicaTimeoutMs: number, leaseMs: number): void {
  if (!Number.isInteger(minReplicas) || (minReplicas as number) < 0 || (minReplicas as number) > 100) {
    throw new LockConfigurationError(
      `Expected \`minReplicas\` to be a whole number from 0 to 100, got ${String(minReplicas)}.`,
    );
  }
  checkDuration(replicaTimeoutMs, 'replicaTimeoutMs', { min: 1, max: 60_000 });
  if (minReplicas === 0 || replicaTimeoutMs < leaseMs) return;
  throw new LockConfigurationError(
    `Expected \`replicaTimeoutMs\` to be shorter than the lease of ${leaseMs} ms, got ${replicaTimeoutMs}: a grant would ` +
      'be over before it counts.',
  );
}
