import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { type LockLostReason, type LockMode } from '../../../lib/core/lock.errors.js';
import { type Lock } from '../../../lib/core/lock.js';
import { type Application } from './application.js';
import { type PlannedCall } from './plan.js';

/** How a call ended: it was granted, or the name of its error. */
export type Outcome = 'granted' | 'aborted' | (string & {});

/** A call of the run, from its start to its outcome. */
export class Call {
  /** The attempts that it has sent, the latest last. */
  readonly attempts: string[] = [];
  /** Those that were granted: on a cluster, one for each slot. */
  readonly granted: string[] = [];
  outcome: Outcome | null = null;
  settledAt = Infinity;
  /** When its first request was sent. */
  askedAt = Infinity;
  abortedAt = Infinity;
  /** The signal that its caller gave. */
  signal: AbortSignal | null = null;
  held: Held | null = null;
  readonly startedAt: number;
  readonly startedMono: number;

  constructor(
    readonly plan: PlannedCall,
    readonly app: Application,
    /** The call in whose work it is made. */
    readonly outer: Call | null = null,
  ) {
    const { process } = app;
    this.startedAt = process.world.now;
    this.startedMono = process.clock.now();
  }

  get process() {
    return this.app.process;
  }

  get name(): string {
    return `c${this.plan.id}`;
  }

  get leaseMs(): number {
    return this.plan.options.leaseMs!;
  }

  get waitMs(): number {
    return this.plan.entry === 'tryAcquire' ? 0 : this.plan.options.waitMs!;
  }

  get isPending(): boolean {
    return this.outcome === null;
  }

  /** The attempt that counts: others were given back. */
  get attempt(): string | undefined {
    return this.attempts.at(-1);
  }

  get text(): string {
    return `${this.name} of ${this.process.name}`;
  }
}

/** A lock that a call holds, as its holder sees it. */
export interface Held {
  readonly call: Call;
  /** What the holder has: a handle, or the hold itself. */
  readonly lock: Lock;
  /** The hold of the store behind it; undefined for a nested call. */
  readonly hold: StoreHold | undefined;
  readonly attempt: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly owner: string | undefined;
  readonly grantedAt: number;
  /** When its acquire was sent first. */
  readonly askedAt: number;
  releasedAt: number;
  /** Until when its release is tried: what was proven of its lease. */
  wantedUntil: number;
  /** When the release was confirmed to the holder. */
  doneAt: number;
  lost: LockLostReason | null;
}

/** The reason of every abort, and the error of work that fails. */
export const ABORTED = new Error('aborted by the caller');
export const WORK_FAILED = new Error('the work failed');
