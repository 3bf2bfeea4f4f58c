import {
  type AdoptsEvent,
  type CallEvent,
  type CampaignsEvent,
  type ChaosEvent,
  type Deed,
  type FaultEvent,
  type Mode,
  type ResourceTotals,
} from './events.js';

/** The rules, each named after its promise in docs/guarantees.md; `nothing-tested`: the run proves nothing. */
type RuleName =
  | 'exclusion'
  | 'permits'
  | 'fencing'
  | 'fenced-writes'
  | 'loss-told'
  | 'reentry'
  | 'one-run-per-fire'
  | 'calls-settle'
  | 'no-lost-wake-up'
  | 'first-in-first-out'
  | 'transfers'
  | 'leaders'
  | 'recovery'
  | 'nothing-left'
  | 'no-stray-errors'
  | 'nothing-tested';

/** A rule that a history breaks, and when. */
export interface Violation {
  readonly rule: RuleName;
  readonly t: number;
  readonly text: string;
}

export interface Span {
  readonly from: number;
  to: number;
}

/** One call, and its outcome. */
export interface Call {
  readonly op: string;
  readonly process: string;
  readonly keys: readonly string[];
  readonly mode: Mode;
  readonly permits: number;
  /** The number of permits that it takes. */
  readonly take: number;
  readonly owner: string | undefined;
  readonly fair: boolean | 'strict';
  /** Calls of one line share one queue of their process; the first of them has a place in the queue in Redis (docs/adr/022). */
  readonly line: string;
  readonly fire: number | undefined;
  readonly waitMs: number;
  readonly abortAfterMs: number | undefined;
  /** How long it keeps the lock at least, whenever it is released. */
  readonly holdAtLeastMs: number;
  /** It may have waited in the hold of its chain of calls, before it waited for the lock. */
  readonly isNested: boolean;
  /** The call whose lock it adopts. */
  readonly adopts: string | undefined;
  /** It is the term of a leader. */
  readonly leads: boolean;
  readonly calledAt: number;
  /** The longest lease that it ever asked for. */
  leaseMs: number;
  grantedAt?: number;
  tokens?: readonly number[];
  /** Until when the holder could prove its lease; Infinity if its client never reports it. */
  until: number;
  readsFrom?: number;
  failedAt?: number;
  failure?: string;
  lostAt?: number;
  lossReason?: string;
  unheldAt?: number;
  releasingAt?: number;
  releasedAt?: number;
  wasHeld?: boolean;
  /** When its text existed; from then on, its hold belongs to the call that adopts it. */
  transferredAt?: number;
  /** The mode that it had then. */
  transferredMode?: Mode | undefined;
  /** Its handle held or released the lock after that. */
  isHeldAfterTransfer?: boolean;
  /** Why the term of the leader is over. */
  demotion?: string;
  /** Its writes to the fenced register that were not refused, and the value that it had read; without an answer, until Infinity. */
  readonly writes: (Span & { readonly was: number })[];
  readonly acts: number[];
  readonly nestedTokens: number[];
}

/** A call on a hold. */
export interface Question {
  readonly op: string;
  readonly process: string;
  readonly what: string;
  readonly withinMs: number;
  readonly from: number;
  to?: number;
}

export interface Fault extends Span {
  readonly id: number;
  readonly kind: string;
  readonly worker: string | undefined;
  readonly forgets: FaultEvent['forgets'];
  readonly stepsBackMs: number;
}

/** One process of a worker. */
export interface Process {
  readonly name: string;
  /** Its worker, by the begin of its name: `w0` of `w0.2`; in the simulation, `P0` of `P0b`. */
  readonly worker: string;
  readyAt?: number;
  /** What it does in addition to its calls. */
  does?: readonly Deed[];
  closingAt?: number;
  closedLeft?: readonly string[];
  endedAt?: number;
  code?: number | null;
  signal?: string | null;
  stuckAt?: number;
  /** When it could not run: it was stopped, or its event loop was blocked. In order. */
  readonly standstills: Span[];
  /** Those in which its monotonic clock also stood still. */
  readonly sleeps: Span[];
  suspendedAt?: number;
}

/** When a process stood still; without an end if it still does. */
export const standstillsOf = ({ standstills, suspendedAt }: Process): readonly Span[] =>
  suspendedAt === undefined ? standstills : [...standstills, { from: suspendedAt, to: Infinity }];

/** Why a leader steps down by itself; any other reason is a loss. */
const STEPS_DOWN = ['resigned', 'stopped', 'shutdown'];

/** Tolerances of the machine of a run. */
export interface Limits {
  /** A report of one process to another, and its line in the history. */
  readonly tellingMs: number;
  /** The recovery time after a fault. */
  readonly recoveryMs: number;
  /** Two reads of one clock. */
  readonly roundingMs: number;
  /** What is added to a time limit: timers are late. Longer standstills of a process are recorded, and subtracted. */
  readonly lateMs: number;
  /** The time in which a call has certainly asked Redis. */
  readonly asksWithinMs: number;
  /** The time in which a waiter has certainly asked again: a third of its waiter lease, and the way to Redis. */
  readonly wakeUpMs: number;
}

/**
 * Of a busy machine, on which two cores run twenty processes. Places of dead waiters end with their leases (3 s here), and clients
 * connect again within a second.
 */
const BUSY: Limits = {
  tellingMs: 50,
  recoveryMs: 4_000,
  roundingMs: 1,
  lateMs: 1_500,
  asksWithinMs: 500,
  wakeUpMs: 2_500,
};

/** A number of processes and servers, over the time of one run. Events of one process come in order. */
export class History {
  readonly calls = new Map<string, Call>();
  /** The calls that adopt the lock of a call, or try to. */
  readonly adoptions = new Map<string, Call[]>();
  readonly processes = new Map<string, Process>();
  readonly questions: Question[] = [];
  readonly faults: Fault[] = [];
  readonly unhandled: { readonly process: string; readonly t: number; readonly text: string }[] = [];
  readonly errors: { readonly process: string; readonly t: number; readonly what: string; readonly code: string }[] =
    [];
  readonly left: string[] = [];
  /** When the process of the nemesis stood still: all networks pass through it. */
  readonly standstills: Span[] = [];
  readonly resources = new Map<string, ResourceTotals>();
  stoppingAt = Infinity;
  endedAt = 0;
  readonly #open = new Map<string, Question>();

  constructor(readonly limits: Limits = BUSY) {}

  static of(events: Iterable<ChaosEvent>): History {
    const history = new History();
    for (const event of events) history.add(event);
    return history;
  }

  add(event: ChaosEvent): void {
    this.endedAt = Math.max(this.endedAt, event.t);
    if (event.e === 'call') this.#addCall(callOf(event));
    else if (event.e === 'adopts') this.#addCall(adoptionOf(event));
    else if (event.e === 'campaigns') this.#addCall(termOf(event));
    else if ('op' in event) this.#addToCall(event);
    else if (event.p === 'nemesis') this.#addNemesis(event);
    else this.#addToProcess(event);
  }

  process(name: string): Process {
    const known = this.processes.get(name);
    if (known) return known;
    const process: Process = { name, worker: /^[a-z]+\d+/i.exec(name)?.[0] ?? name, standstills: [], sleeps: [] };
    this.processes.set(name, process);
    return process;
  }

  #addCall(call: Call): void {
    this.calls.set(call.op, call);
    const { adopts } = call;
    if (adopts !== undefined) this.adoptions.set(adopts, [...(this.adoptions.get(adopts) ?? []), call]);
  }

  #addToCall(event: Extract<ChaosEvent, { op: string }>): void {
    if (event.e === 'asks') return this.#ask(event);
    if (event.e === 'answered') return this.#answer(event);
    const call = this.calls.get(event.op);
    if (!call) return;
    const { t } = event;
    if (event.e === 'granted') {
      Object.assign(call, { grantedAt: t, tokens: event.tokens ?? undefined, until: event.until ?? Infinity });
    } else if (event.e === 'proof') call.until = Math.max(call.until, event.until);
    else if (event.e === 'failed') Object.assign(call, { failedAt: t, failure: event.code });
    else if (event.e === 'lost') Object.assign(call, { lostAt: t, lossReason: event.reason });
    else if (event.e === 'unheld') call.unheldAt ??= t;
    else if (event.e === 'act') call.acts.push(t);
    else if (event.e === 'reads') call.readsFrom ??= t;
    else if (event.e === 'longer') call.leaseMs = Math.max(call.leaseMs, event.leaseMs);
    else if (event.e === 'nested') call.nestedTokens.push(event.token);
    else if (event.e === 'writes') call.writes.push({ was: event.was, from: t, to: Infinity });
    else if (event.e === 'wrote') answerWrite(call, event);
    else if (event.e === 'releasing') call.releasingAt ??= t;
    else if (event.e === 'released') Object.assign(call, { releasedAt: t, wasHeld: event.wasHeld });
    else if (event.e === 'transferred') transfer(call, event);
    else if (event.e === 'spent') call.isHeldAfterTransfer = event.isHeld;
    else if (event.e === 'demoted') demote(call, event);
  }

  #ask({ op, p, what, withinMs, t }: Extract<ChaosEvent, { e: 'asks' }>): void {
    const question: Question = { op, process: p, what, withinMs, from: t };
    this.questions.push(question);
    this.#open.set(`${op} ${what}`, question);
  }

  #answer({ op, what, t }: Extract<ChaosEvent, { e: 'answered' }>): void {
    const question = this.#open.get(`${op} ${what}`);
    if (question) question.to = t;
    this.#open.delete(`${op} ${what}`);
  }

  #addToProcess(event: ChaosEvent): void {
    const process = this.process(event.p);
    if (event.e === 'lag') process.standstills.push({ from: event.from, to: event.t });
    else if (event.e === 'ready') Object.assign(process, { readyAt: event.t, does: event.does });
    else if (event.e === 'closing') process.closingAt = event.t;
    else if (event.e === 'closed') process.closedLeft = event.left;
    else if (event.e === 'error')
      this.errors.push({ process: event.p, t: event.t, what: event.what, code: event.code });
    else if (event.e === 'unhandled') this.unhandled.push({ process: event.p, t: event.t, text: event.text });
  }

  #addNemesis(event: ChaosEvent): void {
    const { t } = event;
    if (event.e === 'fault') {
      const { id, kind, worker, forgets, stepsBackMs = 0 } = event;
      this.faults.push({ id, kind, worker, forgets, stepsBackMs, from: t, to: Infinity });
    } else if (event.e === 'over') {
      const fault = this.faults.find(({ id }) => id === event.id);
      if (fault) fault.to = t;
    } else if (event.e === 'suspended') this.process(event.of).suspendedAt = t;
    else if (event.e === 'resumed') this.#resume(event.of, t);
    else if (event.e === 'exit') {
      Object.assign(this.process(event.of), { endedAt: t, code: event.code, signal: event.signal });
      this.#resume(event.of, t);
    } else if (event.e === 'lag') this.standstills.push({ from: event.from, to: t });
    else if (event.e === 'stopping') this.stoppingAt = t;
    else if (event.e === 'stuck') this.process(event.of).stuckAt = t;
    else if (event.e === 'left') this.left.push(event.what);
    else if (event.e === 'resource') this.resources.set(event.key, event);
  }

  #resume(name: string, t: number): void {
    const process = this.process(name);
    if (process.suspendedAt === undefined) return;
    process.standstills.push({ from: process.suspendedAt, to: t });
    delete process.suspendedAt;
  }
}

/** The minimum end of the lease in Redis: the extension arrived later than it was requested. */
function transfer(call: Call, { t, asked, leaseMs, mode }: Extract<ChaosEvent, { e: 'transferred' }>): void {
  const until = Math.max(call.until, asked + leaseMs);
  Object.assign(call, { transferredAt: t, transferredMode: mode, releasingAt: t, until });
}

function answerWrite({ writes }: Call, { t, isAccepted }: Extract<ChaosEvent, { e: 'wrote' }>): void {
  const write = writes.pop();
  if (write && isAccepted) writes.push({ ...write, to: t });
}

function demote(call: Call, { t, reason }: Extract<ChaosEvent, { e: 'demoted' }>): void {
  call.demotion = reason;
  if (STEPS_DOWN.includes(reason)) call.releasingAt ??= t;
  else call.lostAt ??= t;
}

const callOf = ({ t: calledAt, p: process, ...asked }: CallEvent): Call => {
  const defaults = {
    permits: 0,
    take: 1,
    owner: undefined,
    fair: true,
    fire: undefined,
    abortAfterMs: undefined,
    holdAtLeastMs: 0,
    isNested: false,
  } as const;
  const call = { ...defaults, adopts: undefined, leads: false, ...asked };
  return {
    ...call,
    process,
    line: lineOf(call, process),
    calledAt,
    until: -Infinity,
    writes: [],
    acts: [],
    nestedTokens: [],
  };
};

/** It has no place in a queue, and continues a hold: readers without permits may have entered since its grant. */
const adoptionOf = ({ from, ...event }: AdoptsEvent): Call => ({
  ...callOf({ ...event, e: 'call', waitMs: 0, fair: false, permits: 0 }),
  adopts: from,
});

/** The order among candidates for a lead is not promised. */
const termOf = ({ key, ...event }: CampaignsEvent): Call => ({
  ...callOf({ ...event, e: 'call', keys: [key], mode: 'write', waitMs: Infinity, fair: false }),
  leads: true,
});

function lineOf({ op, keys, waitMs, owner, fair, fire }: Omit<CallEvent, 't' | 'p'>, process: string) {
  const stands = fair === true && keys.length === 1 && owner === undefined && waitMs > 0 && fire === undefined;
  return stands ? `${process} ${keys[0]}` : op;
}
