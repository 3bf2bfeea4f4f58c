import { type LockHistoryStore } from '../history/history-entry.js';
import { storedKey } from '../key.js';
import { LockConfigurationError } from '../lock.errors.js';
import { type JobOfKey, type LastRun, type ListOptions, type LockState, type UnreadableKey } from './lock-state.js';
import { type AdoptReply, type AdoptRequest, type LockStore } from './lock-store.js';

// What a store may offer besides `LockStore`. A call that needs a capability that the store lacks is refused.

/** Holds change hands: `transfer()` and `adopt()`. */
export interface AdoptingStore {
  /**
   * Only one attempt can adopt a hold, and succeeds again when its command is sent again. `lost`: it has ended, or another one has
   * adopted it; `revoked` as for a renewal. An attempt that was released adopts nothing.
   */
  adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply>;
}

/** Semaphores: the option `permits`, and `setPermits()`. */
export interface PermitStore {
  /**
   * Sets how many permits the key has, whatever its requests say; 0 lets no reader in, null leaves it to the requests again. Grants
   * to the waiters that fit now, and takes nothing from those who hold it. The number is kept for 30 days after the last use.
   */
  setPermits(key: string, permits: number | null): Promise<void>;
}

/** Jobs that run once per fire: the option `oncePer`, and `lastRun()`. */
export interface FireStore {
  /** The last run of this job; without one, the run of any job of this key that began last. */
  lastRun(key: string, job?: string): Promise<LastRun | null>;
  /** The last run of each job whose key begins with `prefix`. Without it, a board shows the jobs of its own app only. */
  jobs?(options: ListOptions): AsyncIterable<JobOfKey | UnreadableKey>;
}

/** What operators do: `inspect()`, `isLocked()`, `list()`, `forceRelease()`, the board; and `waitUntilFree()`. */
export interface OperatorStore {
  inspect(key: string): Promise<LockState>;
  /**
   * The locks whose key begins with `prefix` and contains `contains`. One whose data cannot be read is among them, with a `problem`:
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

/** A store with all capabilities but a history. */
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

/** What a store with a capability does, and the members that it has for that. */
const CAPABILITIES = new Map<unknown, string>([
  [hasAdoption, 'lets holds change hands (`adopt`)'],
  [hasPermits, 'keeps permits (`setPermits`)'],
  [hasFires, 'remembers the fires of jobs (`lastRun`)'],
  [hasOperators, 'reports and revokes locks (`inspect`, `list`, `forceRelease`)'],
  [hasHistory, 'keeps a history (`history`)'],
]);

/**
 * Returns the store of a module for something that needs a capability; `what` names that.
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
