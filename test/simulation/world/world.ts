import { AsyncResource } from 'node:async_hooks';
import { Digest } from './digest.js';
import { EventHeap, type EventKind, type SimEvent } from './event-heap.js';
import { type SimProcess } from './sim-process.js';

/** A promise that was broken: `rule` is the name of a rule of the judge. */
export interface Violation {
  readonly rule: string;
  readonly at: number;
  readonly text: string;
}

/** Virtual time, in milliseconds: the events happen one after the other, each with all the promise jobs that it causes. */
export class World {
  now = 0;
  /** How many events have happened. */
  count = 0;
  /** The process whose code runs now. */
  current: SimProcess | null = null;
  readonly violations: Violation[] = [];
  readonly digest = new Digest();
  /** The lines of the log; null unless somebody wants to read them. */
  readonly trace: string[] | null;
  /** Is called after each event and its promise jobs. */
  onEvent: () => void = () => undefined;
  readonly #heap = new EventHeap();
  #order = 0;
  /** What a process does in its next tick. */
  #soon: (() => void)[] = [];

  constructor(isTraced = false) {
    this.trace = isTraced ? [] : null;
  }

  /** Lines are written only if somebody reads them: `text` is called then. */
  log(text: () => string): void {
    this.trace?.push(`${this.now.toFixed(2).padStart(10)}  ${text()}`);
  }

  violate(rule: string, text: string): void {
    this.violations.push({ rule, at: this.now, text });
    this.log(() => `*** ${rule}: ${text}`);
  }

  at(time: number, owner: SimProcess | null, kind: EventKind, happen: () => void): SimEvent {
    const event = { time: Math.max(time, this.now), order: this.#order++, owner, kind, happen, isCancelled: false };
    this.#heap.push(event);
    return event;
  }

  after(delayMs: number, owner: SimProcess | null, kind: EventKind, happen: () => void): SimEvent {
    return this.at(this.now + delayMs, owner, kind, happen);
  }

  /** As `process.nextTick`, for code of the present process; in the async context of the caller, too. */
  soon(run: () => void): void {
    const context = new AsyncResource('soon');
    this.#soon.push(() => context.runInAsyncScope(run));
  }

  /** Lets time pass until `until`, or until a promise is broken. */
  async run(until: number): Promise<void> {
    // From here on, this is a promise job, so that a tick of Node comes when no other promise job is left.
    await Promise.resolve();
    while (this.violations.length === 0) {
      const next = this.#heap.first;
      if (!next || next.time > until) break;
      this.#heap.pop();
      if (next.isCancelled) continue;
      this.now = next.time;
      const { owner } = next;
      // A stopped process keeps its events for later, a dead one drops them.
      if (owner && !owner.takes(next)) continue;
      this.#happen(next);
      // Only code of a process makes promises.
      if (owner) await nextTick();
      while (this.#soon.length > 0) {
        for (const run of this.#soon.splice(0)) run();
        await nextTick();
      }
      this.current = null;
      this.onEvent();
    }
    // Node reports unhandled rejections when it has no tick left.
    await new Promise<void>((resolve) => void setImmediate(resolve));
    if (this.violations.length === 0) this.now = Math.max(this.now, until);
  }

  #happen({ kind, owner, happen }: SimEvent): void {
    this.count += 1;
    this.digest.number(this.now);
    this.digest.text(kind);
    this.current = owner;
    happen();
    // What a process does in its next tick comes before its promise jobs.
    for (const run of this.#soon.splice(0)) run();
  }
}

const nextTick = (): Promise<void> => new Promise<void>((resolve) => process.nextTick(resolve));
