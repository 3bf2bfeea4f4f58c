export type { Key } from './core/call-arguments.js';
export { currentLock, assertLocked } from './core/reentry/context.js';
export {
  LockBusyError,
  LockConfigurationError,
  LockError,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  LockReentryError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from './core/lock.errors.js';
export type { LockErrorCode, LockLostReason, LockMode } from './core/lock.errors.js';
export type {
  DemotionReason,
  HeldLockEvent,
  LockEvent,
  LockEventMap,
  LockEventName,
  LockEvents,
} from './core/lock.events.js';
export type { LockHistoryEntry, LockHistoryEvent, LockHistoryOptions } from './core/history/history-entry.js';
export type { LockOptions } from './core/lock.options.js';
export type { OnUnavailable } from './core/option-checks.js';
export type { LastRun, LockHolder, LockPermits, LockState, LockWaiter } from './core/store/lock-state.js';
export type { Lock } from './core/lock.js';
export type { UnlockedRun } from './core/reentry/unlocked-run.js';
export { Leader, type LeaderOptions } from './decorators/leader.decorator.js';
export { Limited, Locked, ReadLocked, WriteLocked } from './decorators/locked.decorator.js';
export type { KeyFunction, KeySpec } from './keys/key-spec.js';
export { type KeyPart, lockKey } from './keys/lock-key.js';
export type { LockedMethodDecorator, SkippedCall } from './decorators/locked-method.types.js';
export { LockExceptionFilter, type LockExceptionFilterOptions } from './interceptor/request/lock-exception.filter.js';
export { LockInterceptor } from './interceptor/lock.interceptor.js';
export { runNow } from './interceptor/run-now.js';
export type { RequestLockOptions } from './interceptor/request/request-lock.js';
export type { LockedOptions } from './interceptor/locked.options.js';
export { leadershipOf } from './leader/leaders.js';
export type { LeaderHooks, Leadership, LeaderTerm, LeadOptions } from './leader/leadership.js';
export { RedisLockModule, type RedisLockModuleAsyncOptions } from './redis-lock.module.js';
export type { RedisLockModuleOptions } from './redis-lock.options.js';
export { RedisLockService } from './redis-lock.service.js';
export { getLockServiceToken, InjectLockService, LOCK_SCRIPTS } from './redis-lock.tokens.js';
export type {
  IoredisClient,
  NodeRedisClient,
  RedisClusterOptions,
  RedisConnection,
  RedisConnectionOptions,
} from './redis/client/redis-connection.js';
export { createLockScripts } from './redis/scripts/lock-scripts.js';
