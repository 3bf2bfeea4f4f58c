export type { Clock } from '../core/clock.js';
export type { ResolvedLockOptions } from '../core/lock.options.js';
export type { FireClaim, GrantedFire } from '../core/store/fires.js';
export type {
  AcquireReply,
  AcquireRequest,
  AdoptReply,
  AdoptRequest,
  HoldRef,
  LockStore,
  LostReply,
  ReleaseReply,
  ReleaseRequest,
  RenewReply,
  RenewRequest,
  WakeUp,
  WakeUpListener,
} from '../core/store/lock-store.js';
export { lockStoreContract } from './contract/lock-store-contract.js';
export type { LockStoreCase } from './contract/lock-store-contract.js';
export type { LockStoreContractOptions, LockStoreSupport } from './contract/kit.js';
export { FakeLockService } from './fake-lock.service.js';
export type { FakeKey, FakeLockCall, FakeLockOptions } from './fake-lock.service.js';
export { FakeLockModule, useFakeLocks, withFakeLocks } from './fake-locks.js';
export { ManualClock } from './manual-clock.js';
export { MemoryLockServer, MemoryLockStore } from '../memory/memory-lock-store.js';
export type { MemoryLockServerOptions, MemoryLockStoreOptions } from '../memory/memory-lock-store.js';
export { RedisLockTestingModule, useMemoryLocks } from './redis-lock-testing.module.js';
export type { MemoryLockOptions, RedisLockTestingOptions } from './redis-lock-testing.module.js';
