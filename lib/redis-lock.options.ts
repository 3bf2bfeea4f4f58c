import { HISTORY, type HistoryLimits, type LockHistoryOptions, resolveHistory } from './core/history/history-entry.js';
import { LockConfigurationError } from './core/lock.errors.js';
import { LOCK_OPTIONS, type LockDefaults } from './core/lock.options.js';
import {
  BOOLEAN,
  checkOptions,
  CONNECTION_NAME,
  duration,
  FUNCTION,
  KEY_PREFIX,
  type Kind,
  kindOf,
  ON_UNAVAILABLE,
  type OnUnavailable,
  option,
  oneOf,
  type OptionTable,
  whole,
} from './core/option-checks.js';
import { durationText } from './core/printable.js';
import { checkIsObject, readOptions } from './core/read-options.js';
import type { LockStoreFactory } from './core/store/given-store.js';
import type { LockStore } from './core/store/lock-store.js';
import type { RedisConnection } from './redis/client/redis-connection.js';
import { checkPlace } from './redis-lock.place.js';

/** The options of `RedisLockModule`. All durations are whole milliseconds. */
export interface RedisLockModuleOptions {
  /**
   * The name of this connection, for apps with several.
   * @default no name
   */
  name?: string;
  /**
   * Whether all modules of the app may inject the service; the decorators need it wherever they are used.
   * @default true
   */
  isGlobal?: boolean;
  /**
   * A URL, ioredis options (also for Sentinel), `{ cluster: [nodes] }`, or a client of ioredis, iovalkey or node-redis, which is
   * duplicated and never used itself. A list names independent masters: a lock is held when more than half of them have granted
   * it (Redlock). `'memory'` keeps the locks in the memory of the process, for development and for apps of one process.
   * @default 'redis://127.0.0.1:6379', except where NODE_ENV is `production`
   */
  connection?: RedisConnection | readonly RedisConnection[];
  /**
   * Your own store instead of a `connection`, or a function that makes it (preferred, because each start of an app needs a new
   * store). The module opens and closes it.
   * @default the store of `connection`
   */
  store?: LockStore | LockStoreFactory;
  /**
   * Whether `connection: 'memory'` is allowed where NODE_ENV is `production`: only if the app will only ever run as one process.
   * @default false
   */
  memoryInProduction?: boolean;
  /**
   * The prefix of all keys in Redis. Apps that share a Redis but not their locks need different prefixes.
   * @default 'lock:'
   */
  keyPrefix?: string;
  /**
   * How long Redis grants a lock for, in milliseconds; the watchdog renews it after a third of that. A longer lease lets a
   * dead holder block others for longer; a shorter one needs more renewals, and is lost in a shorter pause of the process.
   * @default 30_000
   */
  leaseMs?: number;
  /**
   * How long a call waits for a busy lock, in milliseconds; 0 tries once, `Infinity` waits forever.
   * @default 10_000
   */
  waitMs?: number;
  /**
   * How long a lock may be held, in milliseconds. Then the watchdog stops and the signal is aborted, so hung work cannot
   * hold a lock forever.
   * @default Infinity
   */
  maxHoldMs?: number;
  /**
   * Whether `withLock` and decorated methods wait for their release. `false`: a call returns when its work has ended, if the
   * lease is proven then, and the release continues: one round trip less. A loss that only the release finds is then reported
   * only by the `lost` event.
   * @default true
   */
  awaitRelease?: boolean;
  /**
   * How long a shutdown waits for the holders, in milliseconds.
   * @default 10_000
   */
  drainMs?: number;
  /**
   * What a decorated call does when Redis cannot be reached: `fail` with a `LockStoreError`, `skip` (resolve to `undefined`
   * without running), or `run-unlocked`, which gives up exclusion for availability and logs a warning each time. Errors such as
   * wrong credentials always fail.
   * @default 'fail'
   */
  onUnavailable?: OnUnavailable;
  /**
   * The minimum time for which Redis remembers the last fencing token of an unused lock, in milliseconds, at most 1.5 times as
   * long; about 200 bytes per lock. If the server's clock steps back by more than this, tokens may repeat.
   * @default 600_000
   */
  keepMs?: number;
  /**
   * Whether events of the locks are written to a history that all instances share: a stream in Redis, read with
   * `RedisLockService.history`. An object sets its limits. Locks never wait for the history.
   * @default false
   */
  history?: boolean | LockHistoryOptions;
  /**
   * The number of replicas that must confirm a grant (WAIT) before it counts. A grant with too few confirmations is given back and
   * requested again; when `waitMs` is over, the call rejects with a `LockStoreError`. With 0 no replica is asked, and a failover
   * may forget the grant.
   * @default 0
   */
  minReplicas?: number;
  /**
   * How long the replicas, or the disk, may take to confirm a grant, in milliseconds.
   * @default 500
   */
  replicaTimeoutMs?: number;
  /**
   * `'aof'`: a grant counts when it is in the append-only file on the disk of the server (WAITAOF, Redis 7.2), and of `minReplicas`
   * replicas. What is not confirmed within `replicaTimeoutMs` is given back: with `appendfsync everysec`, allow two seconds.
   * @default a grant counts in the memory of the server
   */
  durable?: 'aof';
  /**
   * Returns the hash tag of a key, or undefined. Keys with the same tag are in the same slot of a cluster, where one command
   * locks several of them. All instances need the same rule; a different rule makes different locks of the same keys.
   * @default no hash tags
   */
  hashTag?: (key: string) => string | undefined;
}

/** The options with all defaults filled in; `connection` is undefined if it was not given, or if there is a `store`. */
export interface ResolvedModuleOptions
  extends
    LockDefaults,
    Readonly<
      Required<Pick<RedisLockModuleOptions, 'keyPrefix' | 'drainMs' | 'keepMs' | 'minReplicas' | 'replicaTimeoutMs'>>
    > {
  readonly durable: RedisLockModuleOptions['durable'];
  readonly name: string | undefined;
  readonly connection: RedisLockModuleOptions['connection'];
  readonly store: RedisLockModuleOptions['store'];
  readonly hashTag: RedisLockModuleOptions['hashTag'];
  readonly onUnavailable: OnUnavailable;
  /** Null: no history is written. */
  readonly history: HistoryLimits | null;
}

/** `checkPlace` checks the options that name a place, together with the options that depend on them. */
const placeKind = (expected: string): Kind => ({ expected, check: () => undefined });
const { leaseMs, waitMs, maxHoldMs, awaitRelease } = LOCK_OPTIONS;

/**
 * The options of the module. A new option needs a row here, and its type and text above.
 * @public to scripts/docs-check.mjs
 */
export const MODULE_OPTIONS = {
  name: option(CONNECTION_NAME),
  isGlobal: option(BOOLEAN, true),
  connection: option(placeKind("a URL, options, a client, a list of them, or 'memory'")),
  store: option(placeKind('a store, or a function that makes one')),
  memoryInProduction: option(BOOLEAN, false),
  keyPrefix: option(KEY_PREFIX, 'lock:'),
  leaseMs: option(leaseMs.kind, 30_000),
  waitMs: option(waitMs.kind, 10_000),
  maxHoldMs: option(maxHoldMs.kind, Infinity),
  awaitRelease: option(awaitRelease.kind, true),
  drainMs: option(duration({ min: 0, max: 3_600_000 }), 10_000),
  keepMs: option(duration({ min: 60_000, max: 31 * 24 * 3_600_000 }), 600_000),
  onUnavailable: option(ON_UNAVAILABLE, 'fail'),
  history: option(HISTORY, false),
  minReplicas: option(whole({ min: 0, max: 100 }), 0),
  replicaTimeoutMs: option(duration({ min: 1, max: 60_000 }), 500),
  durable: option(oneOf('aof')),
  hashTag: option(kindOf('a function of the key', (value) => typeof value === 'function')),
} satisfies OptionTable<RedisLockModuleOptions>;

/** The options that Nest needs when the module is imported, before a factory makes the others. */
export type Extras = Pick<RedisLockModuleOptions, 'name' | 'isGlobal'>;

const { name, isGlobal } = MODULE_OPTIONS;
const EXTRAS: OptionTable<Extras> = { name, isGlobal };

/**
 * Copies the options of the module.
 * @throws LockConfigurationError for an unknown option
 */
export const readModuleOptions = (options: RedisLockModuleOptions): RedisLockModuleOptions =>
  readOptions(options, Object.keys(MODULE_OPTIONS), 'RedisLockModule');

/**
 * Checks the options of the module and fills in the defaults.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function resolveModuleOptions(options: RedisLockModuleOptions): ResolvedModuleOptions {
  const given = readModuleOptions(options);
  checkPlace(given);
  const own = checkOptions(given, MODULE_OPTIONS, 'RedisLockModule');
  const defaults = Object.entries(MODULE_OPTIONS).map(([option, row]) => [option, row.default]);
  const filled = { ...Object.fromEntries(defaults), ...own } as ResolvedModuleOptions & typeof own;
  checkReplicas(filled);
  const { isGlobal: _isGlobal, memoryInProduction: _memoryInProduction, ...resolved } = filled;
  return { ...resolved, isQuorum: Array.isArray(own.connection), history: resolveHistory(own.history ?? false) };
}

const SOURCES = ['useFactory', 'useClass', 'useExisting'];
const ASYNC_NAMES = [...SOURCES, 'inject', 'imports', 'provideInjectionTokensFrom', ...Object.keys(EXTRAS)];

/**
 * Copies and checks the options of `forRootAsync`. Nest ignores any other: the locks would be elsewhere, or have another lease.
 * @throws LockConfigurationError
 */
export function readAsyncOptions<T extends object>(options: T): T {
  const where = 'RedisLockModule.forRootAsync()';
  const own = readOptions(options, ASYNC_NAMES, where) as Readonly<Record<string, unknown>>;
  checkExtras(own);
  const given = SOURCES.filter((name) => own[name] !== undefined);
  if (given.length !== 1) {
    const got = given.length === 0 ? 'none of them' : given.join(' and ');
    throw new LockConfigurationError(`Expected ${where} to have one of ${SOURCES.join(', ')}, got ${got}.`);
  }
  const [source] = given as [string];
  if (source !== 'useExisting') FUNCTION.check(own[source], source);
  return own as T;
}

/** Checks the options that are given where the module is imported. */
export function checkExtras(options: { name?: unknown; isGlobal?: unknown } | undefined): void {
  checkIsObject(options, 'RedisLockModule');
  for (const [option, { kind }] of Object.entries(EXTRAS)) {
    const value = (options as Record<string, unknown>)[option];
    if (value !== undefined) kind.check(value, option);
  }
}

/** Refuses an option in the result of a factory that must be set where the module is imported. */
export function checkNoExtras(options: object | null): void {
  const given = (options ?? {}) as Record<string, unknown>;
  const extra = Object.keys(EXTRAS).find((name) => given[name] !== undefined);
  if (extra === undefined) return;
  throw new LockConfigurationError(
    `The options from the factory of RedisLockModule.forRootAsync() contain \`${extra}\`, where it has no effect: write ` +
      `it next to the factory, as in forRootAsync({ ${extra}: …, useFactory }).`,
  );
}

function checkReplicas({ minReplicas, durable, replicaTimeoutMs, leaseMs }: ResolvedModuleOptions): void {
  if ((minReplicas === 0 && !durable) || replicaTimeoutMs < leaseMs) return;
  throw new LockConfigurationError(
    `Expected \`replicaTimeoutMs\` to be shorter than the lease of ${durationText(leaseMs)}, got ${replicaTimeoutMs}: a grant would ` +
      'be over before it counts.',
  );
}
