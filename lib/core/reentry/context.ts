import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { notHeldHereError, runsUnlockedError, unprovenError } from '../error-texts.js';
import { type Hold } from '../hold/hold.js';
import { type Lock } from '../lock.js';
import { type UnlockedHandle, type UnlockedRun } from './unlocked-run.js';

interface Scope {
  /** Null in a method that runs without its lock, and once the lock has ended and the next one was entered inside. */
  lock: Hold | null;
  /** The handle of a method that runs without its lock. */
  readonly unlocked?: UnlockedHandle;
  outer: Scope | undefined;
}

/** Shared by all copies of the package in a process, so that each sees the locks of the others. */
const STORAGE = Symbol.for('nestjs-redis-lock:context');

type ScopeStorage = AsyncLocalStorage<Scope | undefined>;

const shared = globalThis as { [STORAGE]?: ScopeStorage };

const storage = (shared[STORAGE] ??= new AsyncLocalStorage());

/** The number of nested works on the stack at this moment. */
let worksOnStack = 0;

/** Above this, the next nested call begins in a later turn, because a recursion could overflow the stack. */
const MAX_ON_STACK = 100;

export const isStackDeep = (): boolean => worksOnStack >= MAX_ON_STACK;

/** Runs `work` as the holder of `lock`: `currentLock()` returns it, and calls of the work are nested in it. */
export function runHolding<H extends Hold, T>(lock: H, work: (lock: H) => T): T {
  worksOnStack += 1;
  try {
    return storage.run({ lock, outer: withoutEnded(storage.getStore()) }, work, lock);
  } finally {
    worksOnStack -= 1;
  }
}

/** Runs `work` without the lock that its options name; `currentLock()` returns an `UnlockedRun` there. */
export const runUnlocked = <T>(unlocked: UnlockedHandle, work: () => T): T =>
  storage.run({ lock: null, unlocked, outer: withoutEnded(storage.getStore()) }, work);

/** Runs `work` outside all locks: code that a chain of calls triggers without being part of it. */
export const runOutside = <T>(work: () => T): T => storage.run(undefined, work);

/** The channel on which Node announces each request to an HTTP server, before any listener is called. */
const REQUESTS = 'http.server.request.start';

/**
 * Makes the HTTP requests to this process begin outside all locks, until the returned function is called. A server keeps
 * the context in which it began to listen: inside a lock, all its requests would count as nested calls of the holder.
 */
export function separateRequests(): () => void {
  const leaveLocks = (): void => {
    if (storage.getStore()) storage.enterWith(undefined);
  };
  subscribe(REQUESTS, leaveLocks);
  return () => void unsubscribe(REQUESTS, leaveLocks);
}

/**
 * Drops the locks that have ended: otherwise work that outlives its lock and acquires the next one would keep all of them in memory.
 * (Unlinking a scope is not enough: the next lock was acquired inside it, so the promises of that call refer to the scope.)
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

/** Finds the innermost hold of this chain of calls that is not released; with arguments, of this key and this module. */
export function findCurrentHold(key?: string, keeper?: object): Hold | undefined {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const { lock } = scope;
    if (!lock || (keeper !== undefined && lock.keeper !== keeper)) continue;
    if (!lock.isReleased && (key === undefined || lock.keys.includes(key))) return lock;
  }
  return undefined;
}

/**
 * Finds a hold of `key` that is released, but that a nested call of this very chain keeps from ending. The search stops at
 * `outer`.
 */
export function findUnendedHold(key: string, keeper: object, outer?: Hold): Hold | undefined {
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
 * Whether this chain of calls is inside a hold of `key` that has not ended, released or not, or inside a method that runs without
 * that lock.
 */
export function isInside(key: string, keeper: object): boolean {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const { lock, unlocked } = scope;
    if (lock?.keeper === keeper && !lock.isEnded && lock.keys.includes(key)) return true;
    if (unlocked?.isEnded === false && unlocked.keys.includes(key)) return true;
  }
  return false;
}

/**
 * Returns the lock under which this code runs: inside a method with `@Locked`, or inside `withLock`. With a key, returns the
 * lock of that key. It may have been lost meanwhile: check `held`. In a method that runs without its lock
 * (`onUnavailable: 'run-unlocked'`), `held` is false and `fencingToken` is null. Call it as `currentLock<'run-unlocked'>()`
 * there, for the matching type.
 * @throws LockNotHeldError, LockKeyError
 */
export function currentLock(key?: string): Lock;
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the option
export function currentLock<_Option extends 'run-unlocked'>(key?: string): Lock | UnlockedRun;
export function currentLock(key?: string): Lock | UnlockedRun {
  return requireCurrentLock(key);
}

/**
 * Throws unless this code runs under a lock (of that key) that is proven at this moment.
 * @throws LockNotHeldError, LockLostError, LockKeyError
 */
export function assertLocked(key?: string): void {
  const lock = requireCurrentLock(key);
  if (lock.fencingToken === null) throw runsUnlockedError(lock);
  if (lock.lost) throw lock.lost;
  if (!lock.held) throw unprovenError(lock);
}

function requireCurrentLock(key: string | undefined): Hold | UnlockedHandle {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const lock = scope.lock ?? scope.unlocked;
    const isOver = scope.lock?.isReleased ?? scope.unlocked?.isEnded;
    if (lock && !isOver && (key === undefined || lock.keys.includes(key))) return lock;
  }
  throw notHeldHereError(key);
}
