import { runsUnlockedError } from '../error-texts.js';
import { type LockMode } from '../lock.errors.js';

/**
 * What `currentLock()` returns in a method that runs without its lock, because Redis could not be reached and its options
 * contain `onUnavailable: 'run-unlocked'`. No lock is held: other calls may run at the same time, and there is no fencing token.
 */
export interface UnlockedRun extends AsyncDisposable {
  /** The key that the method would have locked; several keys are joined by `, `. */
  readonly key: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly owner: null;
  readonly fencingToken: null;
  /** One null for each key. */
  readonly fencingTokens: readonly null[];
  /** Never aborted: there is nothing to lose. */
  readonly signal: AbortSignal;
  readonly held: false;
  readonly remainingMs: 0;
  /** @throws LockNotHeldError */
  extend(leaseMs: number): Promise<void>;
  /** @throws LockNotHeldError */
  downgrade(): Promise<void>;
  /** @throws LockNotHeldError */
  transfer(): Promise<string>;
  /** Does nothing; resolves to false, because no lock was held. */
  release(): Promise<boolean>;
}

/** The handle of one run without its lock. */
export class UnlockedHandle implements UnlockedRun {
  readonly key: string;
  readonly owner = null;
  readonly fencingToken = null;
  readonly held = false;
  readonly remainingMs = 0;
  /** Whether the run is over: `currentLock()` no longer returns it. */
  isEnded = false;
  #signal: AbortSignal | null = null;

  constructor(
    readonly keys: readonly string[],
    readonly mode: LockMode,
  ) {
    this.key = keys.join(', ');
  }

  get fencingTokens(): readonly null[] {
    return this.keys.map(() => null);
  }

  /** Each run has its own signal: on a shared one, listeners would accumulate. */
  get signal(): AbortSignal {
    return (this.#signal ??= new AbortController().signal);
  }

  async extend(_leaseMs: number): Promise<void> {
    throw runsUnlockedError(this);
  }

  async downgrade(): Promise<void> {
    throw runsUnlockedError(this);
  }

  async transfer(): Promise<string> {
    throw runsUnlockedError(this);
  }

  async release(): Promise<boolean> {
    return false;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
