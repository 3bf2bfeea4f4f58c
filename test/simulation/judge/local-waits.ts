import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { type Application } from '../workload/application.js';
import { type Call } from '../workload/call.js';
import { type Facts } from './facts.js';
import { takesTurns, TURN_MS } from './hand-overs.js';
import { type Rule, type SentCommand } from './rule.js';

/** How long after the last command of an attempt the next one may follow: a poll, the limit of a command, and a pause. */
const silenceMs = (leaseMs: number): number =>
  (Math.max(500, Math.min(leaseMs, 6_000)) / 3) * 1.02 + Math.min(Math.max(leaseMs / 4, 100), 5_000) + 700;

/** A timer, the end of a turn, and the next turn of a busy process. */
const SLACK_MS = 100;

/** After a pause, a process has done what was due within this time. */
const WELL_MS = 1_000;

/** The last command of an attempt: when it was sent, on the clock of the process, and for which lease. */
interface Asked {
  readonly leaseMs: number;
  readonly at: number;
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
export class LocalWaits implements Rule {
  readonly #doing = new Map<Application, Map<string, Doing>>();
  readonly #since = new Map<Call, number>();
  readonly #failed = new Set<Call>();
  /** Where a release was sent in this event. */
  readonly #ended = new Set<Doing>();

  constructor(private readonly facts: Facts) {}

  onFailed(call: Call): void {
    this.#failed.add(call);
  }

  onSent({ app, name, attempt, keys }: SentCommand): void {
    if (keys.length !== 1) return;
    const { asked } = this.#doingOf(app, keys[0]!);
    const leaseMs = this.facts.callOf.get(attempt)?.leaseMs ?? 0;
    if (name === 'release') this.#ended.add(this.#doingOf(app, keys[0]!));
    if (name === 'acquire') asked.set(attempt, { leaseMs, at: app.process.clock.now() });
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
    world.violate('6: somebody asks for the calls that wait in a process', text);
  }

  /** It has not asked the store itself. */
  #waitsInside(call: Call, app: Application, key: string): boolean {
    const { process, outer, attempts, granted } = call;
    if (process.isDead || process.isClosing || outer || attempts.length + granted.length > 0) return false;
    return call.app === app && call.plan.keys.join() === key && takesTurns(call) && !this.#failed.has(call);
  }

  /** Whether a call of its process asks for the key, or may hand it on. */
  #isServed(app: Application, key: string): boolean {
    const isInTurn = app.process.clock.now() - this.#doingOf(app, key).grantedAt <= TURN_MS + SLACK_MS;
    return this.#isAsked(app, key) || (isInTurn && [...app.locker.holds].some(({ keys }) => keys.includes(key)));
  }

  #isAsked(app: Application, key: string): boolean {
    const { clock, stops, rate } = app.process;
    const now = clock.now();
    // The answer that it finds after a stop is as old as that, and followed by a pause.
    const runsForMs = (this.facts.world.now - (stops.at(-1)?.to ?? -Infinity)) * rate;
    const isRecent = ({ at, leaseMs }: Asked): boolean => Math.min(now - at, runsForMs) <= silenceMs(leaseMs);
    return [...this.#doingOf(app, key).asked.values()].some(isRecent);
  }

  #doingOf(app: Application, key: string): Doing {
    const ofApp = this.#doing.get(app) ?? new Map<string, Doing>();
    this.#doing.set(app, ofApp);
    const doing = ofApp.get(key) ?? { app, key, asked: new Map(), grantedAt: -Infinity };
    ofApp.set(key, doing);
    return doing;
  }
}
