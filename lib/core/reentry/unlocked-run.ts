import { LockNotHeldError, type LockMode } from '../lock.errors.js';

/**
 * What `currentLock()` gives in a method that runs without its lock, since Redis could not be asked and its options say
 * `onUnavailable: 'run-unlocked'`. Nothing is held: others may run beside it, and there is no fencing token.
 */
export interface UnlockedRun extends AsyncDisposable {
  /** The key that the method would have locked; several are joined by `, `. */
  readonly key: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly owner: null;
  readonly fencingToken: null;
  /** As many as there are keys. */
  readonly fencingTokens: readonly null[];
  /** Never aborted: there is nothing to lose. */
  readonly signal: AbortSignal;
  readonly held: false;
  readonly remainingMs: 0;
  /** @throws LockNotHeldError, always */
  extend(leaseMs: number): Promise<void>;
  /** @throws LockNotHeldError, always */
  downgrade(): Promise<void>;
  /** Does nothing; resolves to false, as nothing was held. */
  release(): Promise<boolean>;
}

/** The handle of one run, which ends with it. */
export class UnlockedHandle implements UnlockedRun {
  readonly key: string;
  readonly owner = null;
  readonly fencingToken = null;
  readonly held = false;
  readonly remainingMs = 0;
  /** Whether the run is over, so that this is nobody's lock any more. */
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

  /** One for each run: listeners on one of all runs would stay. */
  get signal(): AbortSignal {
    return (this.#signal ??= new AbortController().signal);
  }

  async extend(_leaseMs: number): Promise<void> {
    throw notHeld(this);
  }

  async downgrade(): Promise<void> {
    throw notHeld(this);
  }

  async release(): Promise<boolean> {
    return false;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** For whoever needs the lock of a run that has none. */
export const notHeld = ({ key, mode }: UnlockedRun): LockNotHeldError => {
  const text =
    `The lock "${key}" is not held: Redis could not be asked, and the method runs unlocked, as its \`onUnavailable\` says. ` +
    "Look at `currentLock().held` before, or let the method fail (`onUnavailable: 'fail'`).";
  return new LockNotHeldError(text, { key, mode });
};
