import { AsyncLocalStorage } from 'node:async_hooks';
import { LockNotHeldError } from './lock.errors.js';
import { type HeldLock } from './held-lock.js';

interface Scope {
  readonly lock: HeldLock;
  readonly outer: Scope | undefined;
}

/** Shared by all copies of the package in a process: two of them would not see each other's locks. */
const STORAGE = Symbol.for('nestjs-redis-lock:context');

const shared = globalThis as { [STORAGE]?: AsyncLocalStorage<Scope> };

const storage = (shared[STORAGE] ??= new AsyncLocalStorage<Scope>());

/** Runs `work` as the holder of `lock`, for `currentLock()` and the calls that it makes. */
export const runHolding = <T>(lock: HeldLock, work: () => T): T =>
  storage.run({ lock, outer: storage.getStore() }, work);

/** The innermost lock of this chain of calls that is not released, of `key` or of any. */
export function heldInContext(key?: string): HeldLock | undefined {
  for (let scope = storage.getStore(); scope; scope = scope.outer) {
    const { lock } = scope;
    if (!lock.isReleased && (key === undefined || lock.keys.includes(key))) return lock;
  }
  return undefined;
}

/** The lock under which this code runs: the innermost one, or that of `key`; a lost one too, so that it can be asked. */
export function lockInContext(key?: string): HeldLock {
  const lock = heldInContext(key);
  if (lock) return lock;
  const which = key === undefined ? 'No lock' : `The lock "${key}"`;
  throw new LockNotHeldError(
    `${which} is not held here. Call this inside a method with @Locked, or inside \`withLock\`; work that nobody awaits ` +
      'outlives its lock.',
    key === undefined ? {} : { key },
  );
}

/** Throws when the lock is not held, or can no longer be proven. */
export function assertHeld(key?: string): void {
  const lock = lockInContext(key);
  if (lock.lost) throw lock.lost;
  if (!lock.held) {
    throw new LockNotHeldError(`The lease of the lock "${lock.key}" cannot be proven at the moment.`, lock);
  }
}
