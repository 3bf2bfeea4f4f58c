import { AsyncResource } from 'node:async_hooks';
import { type SimProcess } from './sim-process.js';

/** Sums up the log of a run: two runs with the same digest had the same events, replies and outcomes in the same order. */
class Digest {
  #low = 0x811c9dc5;
  #high = 0x1b873593;

  number(value: number): void {
    this.#mix(value | 0);
    this.#mix(Math.floor((value % 1) * 2 ** 32) | 0);
  }

  text(value: string): void {
    for (let i = 0; i < value.length; i += 1) this.#mix(value.charCodeAt(i));
  }

  get hex(): string {
    return [this.#high, this.#low].map((part) => (part >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #mix(value: number): void {
    this.#low = Math.imul(this.#low ^ value, 0x01000193);
    this.#high = Math.imul(this.#high ^ (this.#low >>> 15) ^ value, 0x85ebca6b);
  }
}

/** `timer` and `io` run code of a process, and wait while it is stopped. The others happen whatever processes do. */
export type EventKind = 'timer' | 'io' | 'network' | 'server' | 'fault' | 'plan';

/** Something that happens at a moment of the world's time. */
export interface SimEvent {
  readonly time: number;
  /** Of two events at one moment, the one that was planned first happens first. */
  readonly order: number;
  readonly owner: SimProcess | null;
  readonly kind: EventKind;
  readonly happen: () => void;
  isCancelled: boolean;
}

const isBefore = (a: SimEvent, b: SimEvent): boolean => a.time < b.time || (a.time === b.time && a.order < b.order);

/** The events to come, as a binary heap. */
class EventHeap {
  readonly #events: SimEvent[] = [];

  get first(): SimEvent | undefined {
    return this.#events[0];
  }

  push(event: SimEvent): void {
    const events = this.#events;
    let i = events.push(event) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (isBefore(events[parent]!, event)) break;
      events[i] = events[parent]!;
      i = parent;
    }
    events[i] = event;
  }

  pop(): SimEvent | undefined {
    const events = this.#events;
    const [top] = events;
    const last = events.pop();
    if (!last || events.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child += 1;
      if (!isBefore(events[child]!, last)) break;
      events[i] = events[child]!;
      i = child;
    }
    events[i] = last;
    return top;
  }
}

/** A promise that was broken: `rule` is the name of a rule of the checker. */
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
  /** The lines of the log; null if they are not read. */
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

  /** Lines are written only if they are read: `text` is called then. */
  log(text: () => string): void {
    this.trace?.push(`${this.now.toFixed(2).padStart(10)}  ${text()}`);
  }

  violate(rule: string, text: string, at = this.now): void {
    this.violations.push({ rule, at, text });
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

  /** As `process.nextTick`, for code of the present process; also in the async context of the caller. */
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

/** A small generator of pseudo-random numbers (sfc32). The same words give the same numbers, on every machine. */
export class Rng {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  /** Each part of a run has a separate stream, named by `words`: what one part draws does not change another. */
  constructor(...words: readonly (number | string)[]) {
    let state = 0x9e3779b9;
    for (const word of words.flatMap(numbersOf)) state = mixed(state ^ mixed(word));
    const next = (): number => (state = mixed(state + 0x9e3779b9));
    [this.#a, this.#b, this.#c] = [next(), next(), next()];
    for (let i = 0; i < 12; i += 1) this.u32();
  }

  u32(): number {
    const result = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + result) | 0;
    return result >>> 0;
  }

  /** From 0 to 1, without 1. */
  fraction(): number {
    return this.u32() / 2 ** 32;
  }

  float(min: number, max: number): number {
    return min + (max - min) * this.fraction();
  }

  /** A whole number; both ends are possible. */
  int(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1));
  }

  /** Mostly near `min`, sometimes near `max`. */
  skewed(min: number, max: number): number {
    return min + (max - min) * this.fraction() ** 3;
  }

  /** The time to the next of events that come at random, this often on average. */
  exponential(mean: number): number {
    return -Math.log(1 - this.fraction()) * mean;
  }

  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.fraction() * list.length)]!;
  }
}

const numbersOf = (word: number | string): number[] =>
  typeof word === 'number'
    ? [word | 0, Math.floor(word / 2 ** 32) | 0]
    : Array.from(word, (char) => char.codePointAt(0)!);

function mixed(value: number): number {
  let z = value | 0;
  z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
  z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
  return (z ^ (z >>> 16)) | 0;
}
