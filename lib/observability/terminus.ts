import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { checkConnectionName, checkDuration } from '../core/option-checks.js';
import { LockStoreError } from '../core/lock.errors.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { findLockService, lockServicesIn } from './lock-services.js';
import { RecentLosses } from './recent-losses.js';

/** What to check. */
export interface LockHealthOptions {
  /** The name of the connection; left out, the default one. */
  connection?: string;
  /**
   * How long Redis may take to answer, in milliseconds.
   * @default 1_000
   */
  timeoutMs?: number;
}

/** What a check reports beside `status`. */
export interface LockHealth {
  /** How many locks this instance holds now, and how many of its calls are acquiring a lock. */
  readonly held: number;
  readonly waiting: number;
  /** How many locks this instance lost within the last minute. */
  readonly lostLastMinute: number;
  /** How long the check took, in milliseconds. */
  readonly latencyMs: number;
  /** Why the status is `down`: a sentence without names of hosts, users or keys. */
  readonly message?: string;
}

/** A lock that is inspected and never acquired. */
const PROBE_KEY = 'nestjs-redis-lock:health';

/** The parts of an error text that name no host and no user. */
const CAUSES =
  /\b(ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTFOUND|EHOSTUNREACH|NOAUTH|WRONGPASS|NOPERM|LOADING|READONLY|BUSY|OOM|CLUSTERDOWN|MASTERDOWN|MISCONF|MOVED)\b/;

/** A Terminus indicator: whether Redis runs the scripts of the locks within a time limit. */
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
   * Runs a script that changes nothing. The status is `up` when Redis answers within `timeoutMs`, else `down` with a
   * `message`. Takes no longer than `timeoutMs`.
   * @returns the status and a `LockHealth`, under `key`
   * @throws LockConfigurationError when no `RedisLockModule` has this connection, or an option is wrong; nothing else
   */
  async isHealthy<const Key extends string = 'locks'>(
    key: Key = 'locks' as Key,
    { connection, timeoutMs = 1_000 }: LockHealthOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    checkConnectionName(connection, 'connection');
    checkDuration(timeoutMs, 'timeoutMs', { min: 1, max: 600_000 });
    const locks = findLockService(this.moduleRef, connection, 'LockHealthIndicator');
    const losses = this.#lossesOf(locks);
    const startedAt = performance.now();
    const message = await failureOf(locks, timeoutMs);
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

/** Why the locks cannot be inspected; null: they can. */
async function failureOf(locks: RedisLockService, timeoutMs: number): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`Redis did not answer within ${timeoutMs} ms.`), timeoutMs);
  });
  const inspected = locks.inspect(PROBE_KEY).then(() => null, describe);
  try {
    return await Promise.race([inspected, late]);
  } finally {
    clearTimeout(timer);
  }
}

function describe(error: unknown): string {
  if (!(error instanceof LockStoreError)) return 'The locks could not be asked.';
  const [cause] = CAUSES.exec(error.message) ?? [];
  return cause === undefined ? 'Redis could not be asked.' : `Redis could not be asked: ${cause}.`;
}
