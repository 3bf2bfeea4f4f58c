import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { LockStoreError } from '../core/lock.errors.js';
import { BOOLEAN, checkOptions, CONNECTION_NAME, duration, option, type OptionTable } from '../core/option-checks.js';
import { systemRandomness } from '../core/randomness.js';
import { randomAttempt } from '../core/store/attempt-ids.js';
import { partsOf } from '../redis-lock.parts.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { findLockService, lockServicesIn, RecentLosses } from './lock-services.js';

/** The options of a check. */
export interface LockHealthOptions {
  /** The name of the connection; left out, the default one. */
  connection?: string;
  /**
   * How long Redis may take to answer, in milliseconds.
   * @default 1_000
   */
  timeoutMs?: number;
  /**
   * Whether the check takes and releases its own lock. Then it is also down while Redis answers but refuses every lock: without
   * memory (OOM), with too few replicas (NOREPLICAS), as a replica (READONLY), without a permission (NOPERM).
   * @default false
   */
  acquire?: boolean;
}

const OPTIONS = {
  connection: option(CONNECTION_NAME),
  timeoutMs: option(duration({ min: 1, max: 600_000 })),
  acquire: option(BOOLEAN),
} satisfies OptionTable<LockHealthOptions>;

/** What a check reports in addition to `status`. */
export interface LockHealth {
  /** The number of locks that this instance holds now, and of its calls that are acquiring a lock. */
  readonly held: number;
  readonly waiting: number;
  /** The number of locks that this instance lost within the last minute. */
  readonly lostLastMinute: number;
  /** How long the check took, in milliseconds. */
  readonly latencyMs: number;
  /** Why the status is `down`: a sentence without hosts, users or keys. */
  readonly message?: string;
}

/** The lock of the check, which is inspected, or acquired for reading by all instances at once. */
const PROBE_KEY = 'nestjs-redis-lock:health';

/** The parts of an error text without hosts and users. */
const CAUSES =
  /\b(ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTFOUND|EHOSTUNREACH|NOAUTH|WRONGPASS|NOPERM|LOADING|READONLY|BUSY|OOM|NOREPLICAS|CLUSTERDOWN|MASTERDOWN|MISCONF|MOVED)\b/;
/** How a script reports a missing permission. */
const NO_RIGHT = /can't run this command|ACL failure in script/;

/** The lease and the time limit of the lock that the check acquires: without a release, it ends by itself. */
const PROBE_MS = 10_000;

/** A Terminus indicator: whether Redis runs the scripts of the locks, or grants a lock, within a time limit. */
@Injectable()
export class LockHealthIndicator implements OnModuleInit, OnApplicationShutdown {
  readonly #losses = new Map<RedisLockService, RecentLosses>();

  /** Internal: Nest calls it. */
  constructor(
    @Inject(HealthIndicatorService) private readonly health: HealthIndicatorService,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {}

  /** Counts losses from now on, before the first check. */
  onModuleInit(): void {
    for (const locks of lockServicesIn(this.modules)) this.#lossesOf(locks);
  }

  onApplicationShutdown(): void {
    for (const losses of this.#losses.values()) losses.stop();
    this.#losses.clear();
  }

  /**
   * Runs a script that changes nothing, or with `acquire` takes and releases a lock. The status is `up` when Redis answers within
   * `timeoutMs`, otherwise `down` with a `message`. Takes at most `timeoutMs`.
   * @returns the status and a `LockHealth`, under `key`
   * @throws LockConfigurationError
   */
  async isHealthy<const Key extends string = 'locks'>(
    key: Key = 'locks' as Key,
    options: LockHealthOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    const { connection, timeoutMs = 1_000, acquire = false } = checkOptions(options, OPTIONS, 'isHealthy()');
    const locks = findLockService(this.moduleRef, connection, 'LockHealthIndicator');
    const losses = this.#lossesOf(locks);
    const startedAt = performance.now();
    const message = await failureOf(locks, timeoutMs, acquire);
    const latencyMs = Math.round(performance.now() - startedAt);
    const { held, waiting } = locks.activity;
    const health: Omit<LockHealth, 'message'> = { held, waiting, lostLastMinute: losses.count, latencyMs };
    const check = this.health.check(key);
    return message === null ? check.up({ ...health }) : check.down({ ...health, message });
  }

  #lossesOf(locks: RedisLockService): RecentLosses {
    const losses = this.#losses.get(locks) ?? new RecentLosses(locks.events);
    this.#losses.set(locks, losses);
    return losses;
  }
}

/** Returns why the locks cannot be inspected or acquired; null: they can. */
async function failureOf(locks: RedisLockService, timeoutMs: number, acquire: boolean): Promise<string | null> {
  const answered = new AbortController();
  const late = sleep(timeoutMs, `Redis did not answer within ${timeoutMs} ms.`, { signal: answered.signal });
  const probed = acquire ? acquireProbe(locks) : locks.inspect(PROBE_KEY);
  try {
    return await Promise.race([probed.then(() => null), late]);
  } catch (error) {
    return describe(acquire ? 'No lock can be acquired' : 'Redis could not be asked', error);
  } finally {
    answered.abort();
  }
}

/** Takes the lock of the check and releases it, only in the store: it causes no event and no history entry. */
async function acquireProbe(locks: RedisLockService): Promise<void> {
  // A mock has no parts: the check fails.
  const { locker, store } = partsOf(locks)!;
  const attempt = randomAttempt(store.clientId, systemRandomness);
  const request = { keys: [PROBE_KEY], attempt, owner: undefined, mode: 'read', leaseMs: PROBE_MS } as const;
  const { instance: holder } = locker;
  await store.acquire({ ...request, waiterLeaseMs: 0, fair: false, permits: 0, holder }, PROBE_MS, () => undefined);
  await store.release({ key: PROBE_KEY, attempt, holdAtLeastMs: 0, leaseMs: PROBE_MS }, PROBE_MS);
}

function describe(what: string, error: unknown): string {
  if (!(error instanceof LockStoreError)) return 'The locks could not be asked.';
  const cause = CAUSES.exec(error.message)?.[0] ?? (NO_RIGHT.test(error.message) ? 'NOPERM' : undefined);
  return cause === undefined ? `${what}.` : `${what}: ${cause}.`;
}
