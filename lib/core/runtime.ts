import { randomBytes } from 'node:crypto';
import { type Clock, systemClock } from './clock.js';

/** The source of all randomness. */
export interface Randomness {
  /** Returns a number from 0 up to, but not including, 1. */
  fraction(): number;
  /** Returns the text, in base64url, of so many bytes that nobody can guess. */
  text(bytes: number): string;
}

/** Reports objects that the garbage collector has taken; the same as a `FinalizationRegistry`. */
export interface GarbageWatch<T> {
  register(target: object, held: T, token: object): void;
  unregister(token: object): void;
}

/** What the library takes from its process. Nothing else below the Nest layer may; a simulation passes its own. */
export interface Runtime {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly watchGarbage: <T>(onCollected: (held: T) => void) => GarbageWatch<T>;
}

export const systemRandomness: Randomness = {
  fraction: () => Math.random(),
  text: (bytes) => randomBytes(bytes).toString('base64url'),
};

/** The runtime of this process, with a clock that a test may replace. */
export const systemRuntime = (clock: Clock = systemClock): Runtime => ({
  clock,
  random: systemRandomness,
  watchGarbage: (onCollected) => new FinalizationRegistry(onCollected),
});
