import { randomBytes } from 'node:crypto';
import { type AcquireRequest, type ReleaseRequest } from './lock-store.js';

/** Drawn when a store is made and not when the module is loaded: a snapshot of a process must not be cloned with it. */
export const newClientId = (): string => randomBytes(9).toString('base64url');

/** For one command beside the acquisitions: the characters by which it is recognised when it comes again are all random. */
export const randomAttempt = (clientId: string): string => `${clientId}.${randomBytes(6).toString('base64url')}`;

/** Gives the ids of the acquisitions of one client: `<client id>.<salt><counter>`. */
export function attemptIds(clientId: string): () => string {
  // Sets attempts of two processes apart even in the few characters by which released attempts are remembered.
  const salt = randomBytes(2).toString('base64url').slice(0, 2);
  let counter = 0;
  return () => {
    counter += 1;
    return `${clientId}.${salt}${counter.toString(36).padStart(6, '0').slice(-6)}`;
  };
}

/** The releases of an attempt that is not to have anything; of a claim also of its fire, which was not run. */
export const releasesOfAttempt = ({
  keys,
  attempt,
  leaseMs,
  claim,
  unanswered,
}: Pick<AcquireRequest, 'keys' | 'attempt' | 'leaseMs' | 'claim'> &
  Pick<ReleaseRequest, 'unanswered'>): readonly ReleaseRequest[] =>
  keys.map((key) => {
    return { key, attempt, holdAtLeastMs: 0, leaseMs, job: claim?.job, runOutcome: claim && 'void', unanswered };
  });
