import { setImmediate } from 'node:timers';
import { type Clock, systemClock } from './clock.js';
import { type Randomness, systemRandomness } from './randomness.js';

/** Reports objects that the garbage collector has taken; the same as a `FinalizationRegistry`. */
export interface GarbageWatch<T> {
  register(target: object, held: T, token: object): void;
  unregister(token: object): void;
}

/** Calls back at the end of this turn of the event loop. */
export type AfterTurn = (callback: () => void) => void;

// Taken now: the fake timers of a test runner replace them, also in the module of Node.
const nextTick = process.nextTick.bind(process);
const afterReads = setImmediate;

/** `AfterTurn` of this process. */
export const systemAfterTurn: AfterTurn = (callback) => nextTick(callback);

/** Resolves in the next turn of the event loop. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => void afterReads(resolve));

/** What the library takes from its process. No other code below the Nest layer may; a simulation passes its own runtime. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly watchGarbage: <T>(onCollected: (held: T) => void) => GarbageWatch<T>;
}

/** The runtime of this process, with a clock that a test may replace. */
export const systemRuntime = (clock: Clock = systemClock): Runtime => ({
  clock,
  random: systemRandomness,
  watchGarbage: (onCollected) => new FinalizationRegistry(onCollected),
});
