export type { Clock } from './core/clock.js';
export type {
  LockHistoryBatch,
  LockHistoryFacts,
  LockHistoryQuery,
  LockHistoryRecord,
  LockHistoryStore,
} from './core/history/history-entry.js';
export type { LockErrorDetails, NodeAnswer } from './core/lock.errors.js';
export type { Reporter } from './core/reporter.js';
export type { FireClaim, GrantedFire } from './core/store/fires.js';
export type { LockStoreContext, LockStoreFactory } from './core/store/given-store.js';
export { type LockCaller, readHolderText, waitsUntil } from './core/store/holder-text.js';
export type { JobOfKey, ListOptions, UnreadableKey } from './core/store/lock-state.js';
export { TOKENS_OF_A_WRITER } from './core/store/lock-store.js';
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
} from './core/store/lock-store.js';
export { hasAdoption, hasFires, hasHistory, hasOperators, hasPermits } from './core/store/capabilities.js';
export type { AdoptingStore, FireStore, HistoryStore, OperatorStore, PermitStore } from './core/store/capabilities.js';
