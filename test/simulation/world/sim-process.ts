import { AsyncResource } from 'node:async_hooks';
import { type Clock } from '../../../lib/core/clock.js';
import { type Runtime } from '../../../lib/core/runtime.js';
import { Rng, type SimEvent, type World } from './world.js';

interface Watched {
  readonly target: object;
  readonly onCollected: () => void;
}

/** Replaces the finalization registries of a process: an object is collected when the run decides. */
class SimGarbage {
  readonly #watched = new Map<object, Watched>();
  /** Objects that were unreferenced before they were watched. */
  readonly #unreferenced = new Set<object>();

  /** `later` calls back in a later turn of the process. */
  constructor(private readonly later: (callback: () => void) => void) {}

  /** As `watchGarbage` of the library. */
  readonly watch = <T>(onCollected: (held: T) => void) => ({
    register: (target: object, held: T, token: object): void => {
      this.#watched.set(token, { target, onCollected: () => onCollected(held) });
      if (this.#unreferenced.delete(target)) this.later(() => this.collect(target));
    },
    unregister: (token: object): void => void this.#watched.delete(token),
  });

  /** How many objects are watched. */
  get size(): number {
    return this.#watched.size;
  }

  /** `target` is no longer referenced. */
  collect(target: object): void {
    const found = [...this.#watched].find(([, one]) => one.target === target);
    if (!found) return void this.#unreferenced.add(target);
    const [token, { onCollected }] = found;
    this.#watched.delete(token);
    onCollected();
  }
}

/** A time between two moments of the world in which a process could not run. */
export interface Stop {
  readonly from: number;
  to: number;
  /** The machine slept: its monotonic clock stood still. */
  readonly isSleep: boolean;
}

/** The world's time 0, on the wall clocks. */
export const EPOCH_MS = 1_700_000_000_000;

/** A process of the application: its clocks drift, it may be stopped, sleep, and die. */
export class SimProcess {
  diedAt = Infinity;
  /** It shuts down, and makes no more calls. */
  isClosing = false;
  readonly stops: Stop[] = [];
  /** How many timers are set. */
  timers = 0;
  readonly clock: Clock;
  /** What the library takes from this process. */
  readonly runtime: Runtime;
  readonly garbage = new SimGarbage((callback) => void this.clock.setTimer(callback, 0));
  /** How much its wall clock was set, and when last. */
  wallOffset: number;
  wallSetAt = -Infinity;
  /** Ends its sockets when it dies. */
  onDeath: () => void = () => undefined;
  #stop: Stop | null = null;
  #waiting: SimEvent[] = [];
  readonly #rng: Rng;
  /** The monotonic clock showed `#mono` at the world's `#monoAt`. */
  #mono: number;
  #monoAt: number;

  /** `rate`: how fast its clocks run. */
  constructor(
    readonly world: World,
    readonly name: string,
    readonly slot: number,
    readonly rate: number,
    rng: Rng,
  ) {
    this.#rng = rng;
    this.#monoAt = world.now;
    this.#mono = rng.float(1, 1_000_000);
    this.wallOffset = rng.float(-1_000_000, 1_000_000);
    this.clock = {
      now: () => this.#now(),
      wallNow: () => EPOCH_MS + world.now * rate + this.wallOffset,
      setTimer: (callback, delayMs) => this.#setTimer(callback, delayMs),
    };
    const random = { fraction: () => rng.fraction(), text: (bytes: number) => this.#text(bytes) };
    this.runtime = { clock: this.clock, random, watchGarbage: this.garbage.watch };
  }

  get isDead(): boolean {
    return this.diedAt < Infinity;
  }

  get isStopped(): boolean {
    return this.#stop !== null;
  }

  /** Whether an event of this process may happen now. */
  takes(event: SimEvent): boolean {
    if (this.isDead) return false;
    if (this.#stop) this.#waiting.push(event);
    return this.#stop === null;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.clock.setTimer(resolve, ms));
  }

  /** Nothing of it runs for `ms`. During the sleep of a machine, its monotonic clock also stands still. */
  stop(ms: number, isSleep: boolean): void {
    if (this.isDead || this.#stop) return;
    const { world } = this;
    if (isSleep) this.#mono = this.#now();
    this.#stop = { from: world.now, to: world.now + ms, isSleep };
    this.stops.push(this.#stop);
    world.log(() => `${this.name} ${isSleep ? 'sleeps' : 'is stopped'} for ${ms.toFixed(0)} ms`);
    // What has waited follows at once; nothing else can happen between.
    world.after(ms, null, 'fault', () => this.#goOn());
  }

  kill(): void {
    if (this.isDead) return;
    this.diedAt = this.world.now;
    this.#waiting = [];
    this.world.log(() => `${this.name} is dead`);
    this.onDeath();
  }

  #goOn(): void {
    if (this.isDead) return;
    const { world } = this;
    if (this.#stop!.isSleep) this.#monoAt = world.now;
    this.#stop = null;
    world.log(() => `${this.name} runs again`);
    const waiting = this.#waiting.filter((event) => !event.isCancelled);
    this.#waiting = [];
    // Which comes first depends on where the event loop stood.
    const [timers, io] = [
      waiting.filter(({ kind }) => kind === 'timer'),
      waiting.filter(({ kind }) => kind !== 'timer'),
    ];
    const ordered = this.#rng.pick([waiting, [...timers, ...io], [...io, ...timers]]);
    for (const event of ordered) {
      world.at(world.now, this, event.kind, () => {
        if (!event.isCancelled) event.happen();
      });
    }
  }

  #now(): number {
    return this.#stop?.isSleep ? this.#mono : this.#mono + (this.world.now - this.#monoAt) * this.rate;
  }

  /** As `setTimeout`: it may fire half a millisecond early and a little late, in the async context of the caller. */
  #setTimer(callback: () => void, delayMs: number): () => void {
    const { world } = this;
    const due = this.#now() + Math.max(1, delayMs) + this.#rng.float(-0.5, 1.2);
    const context = new AsyncResource('timer');
    let event: SimEvent | null = null;
    this.timers += 1;
    const arm = (): void => {
      event = world.after((due - this.#now()) / this.rate, this, 'timer', () => {
        if (this.#now() < due - 1e-6) return arm();
        this.timers -= 1;
        event = null;
        context.runInAsyncScope(callback);
      });
    };
    arm();
    return () => {
      if (!event) return;
      event.isCancelled = true;
      event = null;
      this.timers -= 1;
    };
  }

  #text(bytes: number): string {
    return Buffer.from(Array.from({ length: bytes }, () => this.#rng.int(0, 255))).toString('base64url');
  }
}
