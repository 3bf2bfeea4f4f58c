import { assertHeld, lockInContext } from './lock-context.js';
import { type Lock } from './lock.js';

/**
 * The lock under which this code runs: inside a method with `@Locked`, or inside `withLock`. With a key, the one of that key.
 * @throws LockNotHeldError outside
 */
export const currentLock = (key?: string): Lock => lockInContext(key);

/**
 * Throws unless this code runs under a lock (of that key) that is proven at this moment.
 * @throws LockNotHeldError, LockLostError
 */
export const assertLocked = (key?: string): void => assertHeld(key);
