import { randomBytes } from 'node:crypto';

/** The source of all randomness. */
export interface Randomness {
  /** Returns a number from 0 up to, but not including, 1. */
  fraction(): number;
  /** Returns this number of unpredictable bytes as a text in base64url. */
  text(bytes: number): string;
}

export const systemRandomness: Randomness = {
  fraction: () => Math.random(),
  text: (bytes) => randomBytes(bytes).toString('base64url'),
};
