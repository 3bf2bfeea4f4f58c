import { type LockHistoryStore } from '../history/history-entry.js';
import { storedKey } from '../key.js';
import { LockConfigurationError } from '../lock.errors.js';
import { type JobOfKey, type LastRun, type ListOptions, type LockState, type UnreadableKey } from './lock-state.js';
import { type AdoptReply, type AdoptRequest, type LockStore } from './lock-store.js';

// What a store may offer in addition to `LockStore`. A call that needs a missing capability is refused.

/** Holds change hands: `transfer()` and `adopt()`. */
export interface AdoptingStore {
  /**
   * Only one attempt can adopt a hold, and succeeds again when its command is repeated. `lost`: the hold has ended, or another attempt
   * has adopted it; `revoked` as for a renewal. An attempt that was released adopts nothing.
   */
  adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply>;
}

/** Semaphores: the option `permits`, and `setPermits()`. */
export interface PermitStore {
  /**
   * Sets the number of permits of the key, whatever its requests contain; 0 lets no reader in, null leaves it to the requests again.
   * Grants to the waiters that fit now, and takes nothing from holders. The number is kept for 30 days after the last use.
   */
  setPermits(key: string, permits: number | null): Promise<void>;
}

/** Jobs that run once per fire: the option `oncePer`, and `lastRun()`. */
export interface FireStore {
  /** The last run of this job; without `job`, the latest run of any job of this key. */
  lastRun(key: string, job?: string): Promise<LastRun | null>;
  /** The last run of each job whose key begins with `prefix`. Without this method, a board shows only its app's jobs. */
  jobs?(options: ListOptions): AsyncIterable<JobOfKey | UnreadableKey>;
}

/** What operators do: `inspect()`, `isLocked()`, `list()`, `forceRelease()`, the board; and `waitUntilFree()`. */
export interface OperatorStore {
  inspect(key: string): Promise<LockState>;
  /**
   * The locks whose key begins with `prefix` and contains `contains`. A lock with unreadable data is among them, with a `problem`:
   * it hides no other lock.
   */
  list(options: ListOptions): AsyncIterable<LockState>;
  /**
   * Revokes the holds of all holders and notifies them; with `upToToken`, only those that were granted up to this fencing token.
   * Returns false if there were none. Waiters continue to wait.
   */
  forceRelease(key: string, upToToken?: number): Promise<boolean>;
}

/** The option `history`, and `history()`. */
export interface HistoryStore {
  readonly history: LockHistoryStore;
}

/** A store with all capabilities except a history. */
export type FullLockStore = LockStore &
  Required<Pick<LockStore, 'checkKey' | 'open' | 'groups'>> &
  AdoptingStore &
  PermitStore &
  FireStore &
  OperatorStore &
  Partial<HistoryStore>;

const hasMethods = (store: object, ...names: readonly string[]): boolean =>
  names.every((name) => typeof (store as Record<string, unknown>)[name] === 'function');

export const hasAdoption = <S extends object>(store: S): store is S & AdoptingStore => hasMethods(store, 'adopt');
export const hasPermits = <S extends object>(store: S): store is S & PermitStore => hasMethods(store, 'setPermits');
export const hasFires = <S extends object>(store: S): store is S & FireStore => hasMethods(store, 'lastRun');
export const hasOperators = <S extends object>(store: S): store is S & OperatorStore =>
  hasMethods(store, 'inspect', 'list', 'forceRelease');
export const hasHistory = <S extends object>(store: S): store is S & HistoryStore =>
  (store as Partial<HistoryStore>).history !== undefined;

/** What a store with a capability does, by the check of its members. */
const CAPABILITIES = new Map<unknown, string>([
  [hasAdoption, 'lets holds change hands (`adopt`)'],
  [hasPermits, 'keeps permits (`setPermits`)'],
  [hasFires, 'remembers the fires of jobs (`lastRun`)'],
  [hasOperators, 'reports and revokes locks (`inspect`, `list`, `forceRelease`)'],
  [hasHistory, 'keeps a history (`history`)'],
]);

/**
 * Returns the store of a module for a feature that needs a capability; `what` names the feature.
 * @throws LockConfigurationError when the store lacks it
 */
export function storeWith<C>(
  store: LockStore,
  has: (store: LockStore) => store is LockStore & C,
  what: string,
): LockStore & C {
  if (has(store)) return store;
  throw new LockConfigurationError(
    `${what} needs a store that ${CAPABILITIES.get(has)}, and that of this module does not. Use another \`connection\` or \`store\`, ` +
      `or leave ${what} out.`,
  );
}

/** Checks a key before anything is sent, as the store does, or as stores do by default. @throws LockKeyError */
export function checkKeyOf(store: Pick<LockStore, 'checkKey'>, key: string): void {
  if (store.checkKey) store.checkKey(key);
  else storedKey(key);
}
