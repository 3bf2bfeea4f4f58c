import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { TOKENS_OF_A_WRITER } from '../../../lib/core/store/lock-store.js';
import { type Application } from '../workload/application.js';
import { type Call, type Held } from '../workload/call.js';
import { Scope, type Rule, type SentCommand } from './rule.js';

/** As in lib/core/timing.ts. */
const HAND_ON_MS = 5;

/** A timer may be so late; as in `Settling`. */
const LATE_MS = 4;

/** What the store granted to a process, which hands it on. */
interface Turn {
  readonly token: number;
  /** On the clock of the process. */
  readonly grantedAt: number;
  readonly provenMs: number;
  /** The call that has the lock now. */
  call: Call;
  handedOn: number;
}

/** What is known of the commands of an attempt. */
interface Commands {
  underWay: number;
  /** One of them had no answer, and may still be carried out. */
  isUnanswered: boolean;
  /** The hold was extended by its caller or downgraded, or that was tried. */
  isTouched: boolean;
}

/** Whether the lock of one key may be handed on to a call (ADR 22). On a cluster, a call may ask for several keys one by one. */
function takesTurns({ plan, waitMs }: Call): boolean {
  const { mode = 'write', fair = true, renew = true, owner, holdAtLeastMs = 0 } = plan.options;
  const isPlain = owner === undefined && holdAtLeastMs === 0 && plan.claim === undefined;
  return mode === 'write' && fair === true && renew && waitMs > 0 && isPlain;
}

/** Whether a call queues within its process. */
function waitsInRow({ plan, waitMs }: Call): boolean {
  const { fair = true, maxWaiters = 0, owner } = plan.options;
  return fair === true && waitMs > 0 && maxWaiters === 0 && owner === undefined && plan.claim === undefined;
}

/** Whether calls of one process take turns with each other. */
const areKin = (a: Call, b: Call): boolean =>
  a.app === b.app && a.leaseMs === b.leaseMs && takesTurns(a) && takesTurns(b);

/**
 * "The calls of one process hand a write lock to each other for up to 5 ms, first in, first out": each with a greater token, of those
 * that the grant has reserved, while half of its lease is proven, and while the store has the hold as it granted it.
 */
export class HandOvers extends Scope implements Rule {
  readonly #turns = new Map<string, Turn>();
  readonly #commands = new Map<string, Commands>();
  /** The place of each call among all of them. */
  readonly #places = new Map<Call, number>();
  readonly #failed = new Set<Call>();

  onCall(call: Call): void {
    this.#places.set(call, this.#places.size);
  }

  onFailed(call: Call): void {
    this.#failed.add(call);
  }

  onSent({ name, attempt, app, leaseMs }: SentCommand): void {
    const commands = this.#commandsOf(attempt);
    if (name === 'acquire') commands.underWay += 1;
    else if (name === 'downgrade') commands.isTouched = true;
    else if (name === 'renew') commands.isTouched ||= leaseMs !== this.facts.callOf.get(attempt)?.leaseMs;
    else if (app.holdOf(attempt) && !app.holdOf(attempt)!.isOver)
      this.#violate('a lock that is no longer held is released', this.facts.callOf.get(attempt)!, 'still holds it');
  }

  onAnswered(attempt: string, outcome: string | null): void {
    const commands = this.#commandsOf(attempt);
    commands.underWay -= 1;
    commands.isUnanswered ||= outcome === null;
  }

  onAcquired(call: Call, hold: StoreHold): void {
    if (this.facts.isQuorum) return;
    if (hold.handedOn === 0) this.#begin(call, hold);
    else this.#onHandedOn(call, hold);
  }

  /** A hold unknown to its process does not get a notice of its loss. */
  onHeld({ call, hold, lock, attempt }: Held): void {
    if (this.#turns.has(attempt) && !hold && lock.held)
      this.#violate('the process knows its hold', call, 'holds it without');
  }

  #begin(call: Call, { attempt, fencingToken: token, deadline, sentAt }: StoreHold): void {
    const provenMs = deadline - sentAt;
    this.#turns.set(attempt, { token, grantedAt: call.process.clock.now(), provenMs, call, handedOn: 0 });
  }

  #onHandedOn(call: Call, hold: StoreHold): void {
    const turn = this.#turns.get(hold.attempt);
    if (!turn) return this.#violate('a turn begins with a grant', call, 'was handed what was not granted');
    this.#checkTurn(turn, call, hold);
    this.#checkHold(turn, call, hold);
    this.#checkWaits(turn, call);
    for (const other of this.facts.pending) this.#checkOrder(call, other, hold.key);
    turn.call = call;
    turn.handedOn = hold.handedOn;
  }

  #checkTurn(turn: Turn, call: Call, hold: StoreHold): void {
    const ageMs = call.process.clock.now() - turn.grantedAt;
    if (ageMs > HAND_ON_MS) this.#violate('a turn is short', call, `${ageMs.toFixed(1)} ms`);
    const nth = hold.fencingToken - turn.token;
    if (nth <= turn.handedOn || nth >= TOKENS_OF_A_WRITER)
      this.#violate('a turn has reserved tokens', call, `${nth} after ${turn.handedOn}`);
    if (!areKin(turn.call, call)) this.#violate('only calls that ask for the same', call, `not as ${turn.call.text}`);
    if (call.process.isClosing) this.#violate('nothing is handed on at a shutdown', call, 'was handed the lock');
  }

  #checkHold(turn: Turn, call: Call, { attempt, provenMs, mode }: StoreHold): void {
    const { underWay, isUnanswered, isTouched } = this.#commandsOf(attempt);
    if (provenMs < turn.provenMs / 2 - 0.001 || provenMs <= 0)
      this.#violate('half of the lease is proven', call, `${provenMs.toFixed(1)} of ${turn.provenMs.toFixed(1)} ms`);
    if (isTouched || mode !== 'write') this.#violate('a hold is handed on as it was granted', call, `to ${mode}`);
    if (underWay > 0 || isUnanswered) this.#violate('all is answered', call, `${underWay} under way`);
    for (const other of this.facts.held) {
      if (
        other.attempt === attempt &&
        other.call !== call &&
        (other.releasedAt === Infinity || this.#isInside(other.call))
      )
        this.#violate('one at a time', call, `${other.call.text} has not released it`);
    }
  }

  /** Whether a nested call is at work in the hold of this one. */
  #isInside(outer: Call): boolean {
    return [...this.facts.held].some(
      ({ call, hold, releasedAt, lock }) => call.outer === outer && !hold && releasedAt === Infinity && lock.held,
    );
  }

  /** The lock is known to be busy since the grant, so `waitMs` counts. */
  #checkWaits({ grantedAt }: Turn, call: Call): void {
    const { process, startedMono, startedAt, waitMs } = call;
    const lateMs = process.clock.now() - Math.max(startedMono + waitMs, grantedAt);
    if (lateMs <= LATE_MS || process.stops.some(({ to }) => to >= startedAt)) return;
    this.#violate('no call waits for longer than waitMs', call, `was handed the lock ${lateMs.toFixed(1)} ms later`);
  }

  /** A call that has asked the store is no longer in the row. */
  #checkOrder(call: Call, other: Call, key: string): void {
    const isOlder = this.#places.get(other)! < this.#places.get(call)! && other.startedAt < this.facts.world.now;
    if (!isOlder || other.outer || other.granted.length > 0 || other.attempts.length > 0 || this.#failed.has(other))
      return;
    if (call.app === other.app && other.plan.keys.join() === key && waitsInRow(other))
      this.#violate('first in, first out', call, `passes ${other.text}`);
  }

  #commandsOf(attempt: string): Commands {
    const known = this.#commands.get(attempt);
    if (known) return known;
    const commands = { underWay: 0, isUnanswered: false, isTouched: false };
    this.#commands.set(attempt, commands);
    return commands;
  }

  #violate(rule: string, call: Call, text: string): void {
    this.facts.world.violate(`turns: ${rule}`, `${call.text}: ${text}`);
  }
}

/** How long after the last command of an attempt the next one may follow: a poll, the limit of a command, and a pause. */
const silenceMs = (leaseMs: number): number =>
  (Math.max(500, Math.min(leaseMs, 6_000)) / 3) * 1.02 + Math.min(Math.max(leaseMs / 4, 100), 5_000) + 700;

/** A grant that replicas confirm waits for those before it on its connection: for the limit of a command, and of WAIT. */
const CONFIRMS_WITHIN_MS = 5_000;

/** A timer, the end of a turn, and the next turn of a busy process. */
const SLACK_MS = 100;

/** After a pause, a process has done what was due within this time. */
const WELL_MS = 1_000;

/** The last command of an attempt: when it was sent, on the clock of the process, and for which lease. */
interface Asked {
  readonly leaseMs: number;
  readonly at: number;
  /** The call that gives its grant back, and then asks again. */
  readonly returnedBy?: Call | undefined;
}

/** What a process does for one key. */
interface Doing {
  readonly app: Application;
  readonly key: string;
  /** Of each attempt that has not ended. */
  readonly asked: Map<string, Asked>;
  /** When the store last granted it. */
  grantedAt: number;
}

/**
 * Promise 6, inside a process: a call that waits behind another one of its process is handed the lock soon, or one of them asks the
 * store. So while a call of the process holds the lock for longer than its turn, the next one has its place in the queue.
 */
export class LocalWaits extends Scope implements Rule {
  readonly #doing = new Map<Application, Map<string, Doing>>();
  readonly #since = new Map<Call, number>();
  readonly #failed = new Set<Call>();
  /** Where a release was sent in this event. */
  readonly #ended = new Set<Doing>();

  onFailed(call: Call): void {
    this.#failed.add(call);
  }

  onSent({ app, name, attempt, keys }: SentCommand): void {
    if (keys.length !== 1) return;
    const { asked } = this.#doingOf(app, keys[0]!);
    const call = this.facts.callOf.get(attempt);
    const leaseMs = call?.leaseMs ?? 0;
    // A call whose grant is given back, because replicas did not confirm it, asks again after a pause.
    const goesOn = call?.isPending && !this.#failed.has(call);
    if (name === 'release' && !goesOn) this.#ended.add(this.#doingOf(app, keys[0]!));
    const at = app.process.clock.now();
    if (name === 'acquire') asked.set(attempt, { leaseMs, at });
    else if (name === 'release' && goesOn) asked.set(attempt, { leaseMs, at, returnedBy: call });
    else asked.delete(attempt);
  }

  onAcquired({ app, plan }: Call, { attempt, handedOn }: StoreHold): void {
    for (const key of plan.keys) {
      const doing = this.#doingOf(app, key);
      doing.asked.delete(attempt);
      if (handedOn === 0) doing.grantedAt = app.process.clock.now();
    }
  }

  /** The next call asks in the turn of the event loop in which the lock is released. */
  onEvent(): void {
    if (this.#ended.size === 0) return;
    for (const { app, key } of this.#ended) {
      // Its timers are late.
      if (app.process.stops.some(({ to }) => to >= this.facts.world.now - WELL_MS)) continue;
      const isHeld = [...app.locker.holds].some(({ keys }) => keys.includes(key));
      const waiting = [...this.facts.pending].find((call) => this.#waitsInside(call, app, key));
      if (waiting && !isHeld && !this.#isAsked(app, key)) this.#violate(waiting);
    }
    this.#ended.clear();
  }

  onTick(): void {
    if (this.facts.isQuorum) return;
    for (const call of this.#since.keys()) if (!call.isPending) this.#since.delete(call);
    for (const call of this.facts.pending) if (this.#waitsInside(call, call.app, call.plan.keys[0]!)) this.#check(call);
  }

  #check(call: Call): void {
    const { world } = this.facts;
    const { app, process } = call;
    const isStopped = process.isStopped || process.stops.some(({ to }) => to >= (this.#since.get(call) ?? Infinity));
    if (isStopped || this.#isServed(app, call.plan.keys[0]!)) return void this.#since.delete(call);
    const since = this.#since.get(call) ?? world.now;
    this.#since.set(call, since);
    if (world.now - since <= SLACK_MS) return;
    this.#violate(call);
  }

  #violate(call: Call): void {
    const { world } = this.facts;
    const text = `${call.text} waits for ${(world.now - call.startedAt).toFixed(0)} ms, and no call of its process asks`;
    world.violate('6: a process asks for its calls that wait', text);
  }

  /** It has not asked the store itself. */
  #waitsInside(call: Call, app: Application, key: string): boolean {
    const { process, outer, attempts, granted } = call;
    if (process.isDead || process.isClosing || outer || attempts.length + granted.length > 0) return false;
    return call.app === app && call.plan.keys.join() === key && takesTurns(call) && !this.#failed.has(call);
  }

  /** Whether a call of its process asks for the key, or may hand it on. */
  #isServed(app: Application, key: string): boolean {
    const isInTurn = app.process.clock.now() - this.#doingOf(app, key).grantedAt <= HAND_ON_MS + SLACK_MS;
    return this.#isAsked(app, key) || (isInTurn && [...app.locker.holds].some(({ keys }) => keys.includes(key)));
  }

  #isAsked(app: Application, key: string): boolean {
    const { clock, stops, rate } = app.process;
    const now = clock.now();
    // The answer that it finds after a stop is as old as that, and followed by a pause.
    const runsForMs = (this.facts.world.now - (stops.at(-1)?.to ?? -Infinity)) * rate;
    const confirmMs = this.facts.confirmMs > 0 ? CONFIRMS_WITHIN_MS : 0;
    const isRecent = ({ at, leaseMs }: Asked): boolean =>
      Math.min(now - at, runsForMs) <= silenceMs(leaseMs) + confirmMs;
    const goesOn = ({ returnedBy }: Asked): boolean =>
      !returnedBy || (returnedBy.isPending && !this.#failed.has(returnedBy));
    return [...this.#doingOf(app, key).asked.values()].some((one) => isRecent(one) && goesOn(one));
  }

  #doingOf(app: Application, key: string): Doing {
    const ofApp = this.#doing.get(app) ?? new Map<string, Doing>();
    this.#doing.set(app, ofApp);
    const doing = ofApp.get(key) ?? { app, key, asked: new Map(), grantedAt: -Infinity };
    ofApp.set(key, doing);
    return doing;
  }
}
