import type { DemotionReason } from '../core/lock.events.js';
import { LOCK_OPTIONS, type LockOptions } from '../core/lock.options.js';
import { checkOptions, FUNCTION, option, type OptionTable } from '../core/option-checks.js';

/** One term of a leader: from its election until it is demoted. */
export interface LeaderTerm {
  /** The key of the lead. */
  readonly key: string;
  /**
   * Strictly greater than that of every earlier term; a safe integer (microseconds of the server's clock). Let the protected
   * resource refuse smaller ones.
   */
  readonly fencingToken: number;
  /**
   * Aborted when the term is over: before another instance can be elected, unless an operator revoked the lock. Its reason is the
   * `LockLostError` of the loss; a `LockNotHeldError` when the leader resigned or was stopped; a `LockShutdownError` when the app
   * shuts down.
   */
  readonly signal: AbortSignal;
  /** When this instance was elected, by its own clock. */
  readonly since: Date;
}

/** The hooks that a class with `@Leader` may implement, also options of `lead`. */
export interface LeaderHooks {
  /**
   * Called when this instance is elected, as the holder of the lock: `currentLock()` and `assertLocked()` work inside. It may run
   * for the whole term; then it must stop when `term.signal` is aborted, because this instance does not campaign again before.
   * An error is logged, and the instance continues to lead.
   */
  onElected?(term: LeaderTerm): unknown;
  /**
   * Called once when the term is over, in the same turn as `term.signal`. When the leader steps down (`resigned`, `stopped`,
   * `shutdown`), the lock is kept until this call has ended, for up to `drainMs`. An error is logged.
   */
  onDemoted?(term: LeaderTerm, reason: DemotionReason): unknown;
}

/**
 * The campaign of this instance for a lead: it waits for its turn to lead, leads, and campaigns again after each term. `await
 * using leadership = locks.lead('reports')` stops it at the end of the block.
 */
export interface Leadership extends AsyncDisposable {
  /** The key of the lead, also the key of a lock: `inspect(key)` shows which instance leads. */
  readonly key: string;
  /** The term of this instance; undefined while it does not lead. */
  readonly term: LeaderTerm | undefined;
  /** Whether this instance leads, and can prove it, at this moment. */
  isLeader(): boolean;
  /**
   * Resolves with the term: at once if this instance leads, otherwise when it is elected.
   * @throws LockNotHeldError, LockShutdownError, `signal.reason`
   */
  waitUntilLeader(): Promise<LeaderTerm>;
  /**
   * Steps down and lets others go first: this instance campaigns again after a second. Does nothing unless it leads. The term
   * is over at once; the lock is kept until the work of the term has ended, for up to `drainMs`. Resolves when the lock is
   * released; inside the work of the term, at once.
   */
  resign(): Promise<void>;
  /** Steps down in the same way and ends the campaign. */
  stop(): Promise<void>;
}

/** The options of `lead`. */
export interface LeadOptions extends LeaderHooks, Pick<LockOptions, 'leaseMs'> {
  /** Stops the campaign: the leader steps down, as with `stop()`. */
  signal?: AbortSignal;
}

const { leaseMs, signal } = LOCK_OPTIONS;
const HOOK = option(FUNCTION);
const LEAD_OPTIONS = { onElected: HOOK, onDemoted: HOOK, leaseMs, signal } satisfies OptionTable<LeadOptions>;

export const checkLeadOptions = (options: LeadOptions): LeadOptions => checkOptions(options, LEAD_OPTIONS, 'lead()');
