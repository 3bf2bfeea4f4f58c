import { type Clock } from '../clock.js';
import { type LockHistoryStore } from '../history/history-entry.js';
import { LockConfigurationError } from '../lock.errors.js';
import { BOOLEAN } from '../option-checks.js';
import { reading, refuse } from '../read-options.js';
import { type Reporter } from '../reporter.js';
import { type FullLockStore } from './capabilities.js';
import { type LockStore } from './lock-store.js';

/** What a module passes to the factory of its store. */
export interface LockStoreContext {
  /** The option `keyPrefix`: modules with different prefixes share no lock. */
  readonly keyPrefix: string;
  /** The option `keepMs`: the minimum time for which the last fencing token of an unused lock is remembered, in milliseconds. */
  readonly keepMs: number;
  /** The time and the timers of the process. Its timers do not keep the process alive. */
  readonly clock: Clock;
  /** The log of the app. */
  readonly reporter: Reporter;
}

/** Makes the store of one module. */
export type LockStoreFactory = (context: LockStoreContext) => LockStore;

const REQUIRED: readonly (keyof LockStore)[] = ['listen', 'acquire', 'renew', 'release', 'close'];
const OPTIONAL: readonly (keyof FullLockStore)[] = [
  'open', 'checkKey', 'groups', 'withdraw', 'adopt', 'setPermits', 'lastRun', 'jobs', 'inspect', 'list', 'forceRelease',
]; // prettier-ignore

/** The stores that a module has used: each has one listener, and is closed with its module. */
const used = new WeakSet<LockStore>();

/**
 * Returns the store of a module: the given one, or the one that its factory creates.
 * @throws LockConfigurationError for anything but a store, or when another module has used the store
 */
export function storeOf(given: LockStore | LockStoreFactory, context: LockStoreContext): LockStore {
  const isMade = typeof given === 'function';
  const store = isMade ? given(context) : given;
  checkStore(store, isMade ? 'the result of the factory `store`' : '`store`');
  if (used.has(store)) {
    throw new LockConfigurationError(
      'Expected `store` to be a store that no RedisLockModule has used before, since each closes its own. Pass a function that ' +
        'makes one, and each module gets a new one: `store: () => new MyStore()`.',
    );
  }
  used.add(store);
  return store;
}

/**
 * Checks that a value is a store; `what` names it in the error text.
 * @throws LockConfigurationError that names the missing methods
 */
export function checkStore(store: unknown, what = '`store`'): asserts store is LockStore {
  reading(`The value of ${what}`, () => {
    const isObject = typeof store === 'object' && store !== null;
    if (isObject && !(store instanceof Promise)) return checkMembers(store, what);
    const kind = isObject ? 'a promise (await it in forRootAsync)' : `a value of type ${typeof store}`;
    const got = store === null ? 'null' : kind;
    throw new LockConfigurationError(`Expected ${what} to be a LockStore, got ${got}.`);
  });
}

function checkMembers(given: object, what: string): void {
  const store = given as Readonly<Record<string, unknown>>;
  const missing = REQUIRED.filter((name) => typeof store[name] !== 'function');
  if (missing.length > 0) {
    const names = missing.map((name) => `\`${name}()\``).join(', ');
    throw new LockConfigurationError(`Expected ${what} to be a LockStore, but it lacks ${names}.`);
  }
  const { clientId, keyPrefix, reservesTokens, history } = store;
  // Wake-ups find their process by the part of an attempt before the first dot.
  if (typeof clientId !== 'string' || !/^[^.\s]+$/.test(clientId)) {
    refuse('store.clientId', clientId, 'a text without dots and spaces');
  }
  if (keyPrefix !== undefined && typeof keyPrefix !== 'string') {
    refuse('store.keyPrefix', keyPrefix, 'a text or left out');
  }
  for (const name of OPTIONAL) {
    if (store[name] !== undefined && typeof store[name] !== 'function') {
      refuse(`store.${name}`, store[name], 'a method or left out');
    }
  }
  const isKept = ({ append, read }: Partial<LockHistoryStore>): boolean =>
    typeof append === 'function' && typeof read === 'function';
  if (history !== undefined && (typeof history !== 'object' || history === null || !isKept(history))) {
    refuse('store.history', history, 'an object with the methods `append` and `read`, or left out');
  }
  if (reservesTokens !== undefined) BOOLEAN.check(reservesTokens, 'store.reservesTokens');
}
