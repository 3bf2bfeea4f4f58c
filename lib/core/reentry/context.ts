import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { LockNotHeldError } from '../lock.errors.js';
import { type Hold } from '../hold/hold.js';
import { type Lock } from '../lock.js';
import { notHeld, type UnlockedHandle, type UnlockedRun } from './unlocked-run.js';

interface Scope {
  /** Null when it has ended, and the next one was taken inside; and where a method runs without its lock. */
  lock: Hold | null;
  /** The run of a method without its lock. */
  readonly unlocked?: UnlockedHandle;
  outer: Scope | undefined;
}

/** Shared by all copies of the package in a process: two of them would not see each other's locks. */
const STORAGE = Symbol.for('nestjs-redis-lock:context');

type ScopeStorage = AsyncLocalStorage<Scope | undefined>;

const shared = globalThis as { [STORAGE]?: ScopeStorage };

const storage = (shared[STORAGE] ??= new AsyncLocalStorage());

/** Runs `work` as the holder of `lock`, for `currentLock()` and the calls that it makes. */
export const runHolding = <T>(lock: Hold, work: () => T): T =>
  storage.run({ lock, outer: withoutEnded(storage.getStore()) }, work);

/** Runs `work` without the lock that its options name, for `currentLock()` to say so. */
export const runUnlocked = <T>(unlocked: UnlockedHandle, work: () => T): T =>
  storage.run({ lock: null, unlocked, outer: withoutEnded(storage.getStore()) }, work);

/** Runs `work` as the holder of nothing, for what is called within a chain of calls and is no part of it. */
export const runOutside = <T>(work: () => T): T => storage.run(undefined, work);

/** On which Node tells of each request to an HTTP server, before any listener hears of it. */
const REQUESTS = 'http.server.request.start';

/**
 * Has the requests that come to this process begin outside all locks, until the function that it gives is called. A
 * server listens in the context in which it was told to: inside a lock, all its requests would count as nested calls of
 * the holder.
 */
export function separateRequests(): () => void {
  const leaveLocks = (): void => {
    if (storage.getStore()) storage.enterWith(undefined);
  };
  subscribe(REQUESTS, leaveLocks);
  return () => void unsubscribe(REQUESTS, leaveLocks);
}

/**
 * Forgets the locks that have ended: work that outlives its lock and takes the next one would keep all of them.
 * (Unlinking a scope is not enough: the next lock was acquired in it, so that its promises refer to it.)
 */
function withoutEnded(innermost: Scope | undefined): Scope | undefined {
  const first = notEnded(innermost);
  for (let scope = first; scope; scope = scope.outer) scope.outer = notEnded(scope.outer);
  return first;
}

function notEnded(scope: Scope | undefined): Scope | undefined {
  let found = scope;
  for (; found && (found.lock ?? found.unlocked)?.isEnded !== false; found = found.outer) found.lock = null;
  return found;
}

/** The innermost lock of this chain of calls that is not released, of `key` or of any, of `keeper` or of any. */
export function heldInContext(key?: string, keeper?: object): Hold | undefined {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const { lock } = scope;
    if (!lock || (keeper !== undefined && lock.keeper !== keeper)) continue;
    if (!lock.isReleased && (key === undefined || lock.keys.includes(key))) return lock;
  }
  return undefined;
}

/**
 * A hold of `key` that was released and goes on only because of this chain of calls: it ends when the chain does. Looks
 * no further out than `outer`.
 */
export function keptByChain(key: string, keeper: object, outer?: Hold): Hold | undefined {
  const inside: Hold[] = [];
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const { lock } = scope;
    if (!lock) continue;
    if (lock === outer) return undefined;
    if (!lock.isReleased) inside.push(lock);
    else if (lock.keeper === keeper && !lock.isEnded && lock.keys.includes(key)) {
      if (inside.some((inner) => inner.isInside(lock))) return lock;
    }
  }
  return undefined;
}

/**
 * The lock under which this code runs: inside a method with `@Locked`, or inside `withLock`; with a key, the one of that
 * key. A lock that was lost meanwhile is given too, so that it can be asked.
 *
 * In a method that runs without its lock (`onUnavailable: 'run-unlocked'`), `held` is false and `fencingToken` is null.
 * A method with that option says so, and has it in the type: `currentLock<'run-unlocked'>()`.
 * @throws LockNotHeldError outside
 */
export function currentLock(key?: string): Lock;
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller says which of its options it means
export function currentLock<_Option extends 'run-unlocked'>(key?: string): Lock | UnlockedRun;
export function currentLock(key?: string): Lock | UnlockedRun {
  return lockInContext(key);
}

/**
 * Throws unless this code runs under a lock (of that key) that is proven at this moment.
 * @throws LockNotHeldError, also in a method that runs without its lock; LockLostError
 */
export function assertLocked(key?: string): void {
  const lock = lockInContext(key);
  if (lock.fencingToken === null) throw notHeld(lock);
  if (lock.lost) throw lock.lost;
  if (lock.held) return;
  const text = `The lease of the lock "${lock.key}" cannot be proven at the moment.`;
  throw new LockNotHeldError(`${text} Do not write while \`held\` is false.`, lock);
}

function lockInContext(key: string | undefined): Hold | UnlockedHandle {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const lock = scope.lock ?? scope.unlocked;
    const isOver = scope.lock?.isReleased ?? scope.unlocked?.isEnded ?? true;
    if (lock && !isOver && (key === undefined || lock.keys.includes(key))) return lock;
  }
  const what = key === undefined ? 'No lock is held' : `The lock "${key}" is not held`;
  throw new LockNotHeldError(
    `${what} here. Call this inside a method with @Locked, or inside \`withLock\`; work that nobody awaits ` +
      'outlives its lock.',
    { key },
  );
}
