import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type SimServer } from '../server/sim-server.js';
import { type Application, type Candidate } from '../workload/application.js';
import { type HolderStep } from '../workload/plan.js';
import { type Call, type Held, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Hold, type LockView } from '../../support/lua/lock-view.js';
import { type Reply, type ScriptCall } from './script-reader.js';

/** One lock on one server before and after a script. */
export interface Change {
  readonly server: SimServer;
  readonly script: ScriptCall;
  readonly reply: Reply;
  readonly key: string;
  readonly before: LockView;
  readonly lock: LockView;
  /** The server's time, in milliseconds. */
  readonly now: number;
  /** The holds whose leases are not over. */
  readonly live: readonly (readonly [attempt: string, hold: Hold])[];
}

/** A grant that a script has just made. */
export interface NewGrant extends Change {
  readonly attempt: string;
  readonly hold: Hold;
  /** The owner holds the lock already, and shares its token. */
  readonly isReentry: boolean;
}

/** A command that a process gives to its store. */
export interface SentCommand {
  readonly app: Application;
  readonly name: 'acquire' | 'renew' | 'release' | 'downgrade';
  readonly attempt: string;
  readonly keys: readonly string[];
  /** Of a renewal. */
  readonly leaseMs?: number;
}

/** What rules have in common. */
export abstract class Scope {
  constructor(protected readonly facts: Facts) {}

  protected violate(rule: string, { text }: Call, what: string): void {
    this.facts.world.violate(rule, `${text}: ${what}`);
  }
}

/** A promise of docs/guarantees.md, checked after each event. Each method is called when the run has something for it. */
export interface Rule {
  onCall?(call: Call): void;
  onSent?(command: SentCommand): void;
  /** An acquire was answered; null: it failed, and may still be carried out. */
  onAnswered?(attempt: string, outcome: string | null): void;
  /** A call gets its lock, and fails: at that very moment, before it settles. */
  onAcquired?(call: Call, hold: StoreHold): void;
  onFailed?(call: Call): void;
  onChange?(change: Change): void;
  onGrant?(grant: NewGrant): void;
  onHeld?(held: Held): void;
  onLost?(held: Held): void;
  /** A holder is about to do something with its lock. */
  onStep?(held: Held, step: HolderStep): void;
  onReleasing?(held: Held): void;
  onReleased?(held: Held, wasHeld: boolean, tookMs: number): void;
  /** A lock was transferred; `wasHeld`: a release of its handle after that says that it was held; `asked`: when the transfer began. */
  onTransferred?(held: Held, wasHeld: boolean, asked: number): void;
  /** Another process adopts a transferred lock, or fails to. */
  onAdopted?(from: Held, held: Held): void;
  onNotAdopted?(from: Held, call: Call, error: string): void;
  onSettled?(call: Call, outcome: Outcome, error: unknown): void;
  /** A process campaigns for a lead, leads, and leads no more. */
  onCampaign?(candidate: Candidate): void;
  onElected?(candidate: Candidate, term: LeaderTerm): void;
  onWorked?(candidate: Candidate, term: LeaderTerm): void;
  onDemoted?(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void;
  /** After each event. */
  onEvent?(): void;
  /** Four times a second of the world. */
  onTick?(): void;
  /** When all calls have ended, long after the last fault. */
  onEnd?(): void;
  /** When the run is over, also because a promise is broken. */
  conclude?(): void;
}
