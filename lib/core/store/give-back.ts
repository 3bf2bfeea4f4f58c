import { type AcquireRequest, type ReleaseRequest } from './lock-store.js';

/** The releases of an attempt that is not to have anything; of a claim also of its fire, which was not run. */
export const givingBack = ({
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
