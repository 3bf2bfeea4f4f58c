import { type Randomness } from '../randomness.js';
import { type AcquireRequest, type ReleaseRequest } from './lock-store.js';

/** Random per store, not per load of the module: processes that start from the same snapshot must not share an id. */
export const newClientId = (random: Randomness): string => random.text(9);

/** The attempt of a single command outside an acquisition. All characters by which a store recognises it are random. */
export const randomAttempt = (clientId: string, random: Randomness): string => `${clientId}.${random.text(6)}`;

/** The counter has six digits of base 36. */
const FIRST = 36 ** 5;
const LAST = 36 ** 6 - 1;

/** Returns a function that makes the attempt ids of one client: `<client id>.<salt><counter>`. */
export function attemptIds(clientId: string, random: Randomness): () => string {
  // The salt distinguishes attempts of two processes even in the few characters that are kept of released attempts.
  const beginning = `${clientId}.${random.text(2).slice(0, 2)}`;
  let counter = FIRST;
  return () => {
    counter = counter === LAST ? FIRST : counter + 1;
    return beginning + counter.toString(36);
  };
}

/** The releases that give an attempt back; with a claim, its fire may be claimed again unless its run has begun. */
export const releasesOfAttempt = ({
  keys,
  attempt,
  leaseMs,
  claim,
  unanswered,
  holdAtLeastMs = 0,
}: Pick<AcquireRequest, 'keys' | 'attempt' | 'leaseMs' | 'claim'> &
  Pick<ReleaseRequest, 'unanswered'> &
  Partial<Pick<ReleaseRequest, 'holdAtLeastMs'>>): readonly ReleaseRequest[] =>
  keys.map((key) => {
    const runOutcome = claim && !claim.hasBegun ? 'void' : undefined;
    return { key, attempt, holdAtLeastMs, leaseMs, job: claim?.job, runOutcome, unanswered };
  });
