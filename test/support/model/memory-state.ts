import { type MemoryLock } from './memory-lock.js';

/** A lock at a moment, unchanged. */
export interface Look {
  readonly lock: MemoryLock;
  /** The server's time in milliseconds. */
  readonly now: number;
}
