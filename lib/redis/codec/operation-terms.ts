import { type FireClaim } from '../../core/store/fires.js';
import { type AcquireRequest, type ReleaseRequest, type RenewRequest } from '../../core/store/lock-store.js';
import { ACQUIRE } from '../scripts/acquire.js';
import { type Terms } from '../scripts/operation.js';
import { RELEASE } from '../scripts/release.js';
import { RENEW } from '../scripts/renew.js';

/** The operands of all scripts that change a lock. */
export interface SharedOperands {
  /** As a text of ten digits. */
  readonly keepMs: string;
  readonly channelPrefix: string;
  /** 1: the number of receivers of a message says whether anybody listens. */
  readonly countReceivers: 0 | 1;
}

/** The fields of a request on which its terms depend. */
type Requested = Pick<
  AcquireRequest,
  'owner' | 'mode' | 'leaseMs' | 'waiterLeaseMs' | 'maxWaiters' | 'permits' | 'take' | 'holder' | 'fair'
>;
type Renewed = Pick<RenewRequest, 'leaseMs' | 'mode'>;
type Released = Pick<ReleaseRequest, 'holdAtLeastMs' | 'runOutcome' | 'job' | 'unanswered'>;

const requestTheSame = (a: Requested, b: Requested): boolean =>
  a.owner === b.owner &&
  a.mode === b.mode &&
  a.leaseMs === b.leaseMs &&
  a.waiterLeaseMs === b.waiterLeaseMs &&
  a.maxWaiters === b.maxWaiters &&
  a.permits === b.permits &&
  a.take === b.take &&
  a.holder === b.holder &&
  a.fair === b.fair;

const renewTheSame = (a: Renewed, b: Renewed): boolean => a.leaseMs === b.leaseMs && a.mode === b.mode;

const releaseTheSame = (a: Released, b: Released): boolean =>
  a.holdAtLeastMs === b.holdAtLeastMs &&
  a.runOutcome === b.runOutcome &&
  a.job === b.job &&
  a.unanswered === b.unanswered;

/** Makes the terms of acquires, releases and renewals. */
export class OperationTerms {
  readonly #keepMs: number;

  constructor(private readonly shared: SharedOperands) {
    this.#keepMs = Number(shared.keepMs);
  }

  /** `now`: on our monotonic clock. The age of a fire is another one in each acquire. */
  ofAcquire(request: Requested & Pick<AcquireRequest, 'claim'>, now: number): Terms {
    const { claim } = request;
    return claim ? this.#makeAcquire(request, claim, now) : this.#unclaimed(request);
  }

  readonly ofRenewal = keepingLast(renewTheSame, ({ leaseMs, mode }: Renewed) => {
    const lease = { leaseMs: padded(leaseMs), ttlMs: ttlMs(this.#keepMs, leaseMs) };
    return RENEW.termsOf({ ...this.shared, ...lease, mode, plain: mode === 'write' ? 1 : 0 });
  });

  readonly ofRelease = keepingLast(releaseTheSame, (request: Released) => {
    const { holdAtLeastMs, runOutcome = '-', job, unanswered } = request;
    const plain = holdAtLeastMs === 0 && runOutcome === '-' && !unanswered ? 1 : 0;
    const end = { holdAtLeastMs, job: encodeJob(job), runOutcome, unanswered: unanswered ? 1 : 0 };
    return RELEASE.termsOf({ ...this.shared, ...end, plain });
  });

  readonly #unclaimed = keepingLast(requestTheSame, (requested: Requested) =>
    this.#makeAcquire(requested, undefined, 0),
  );

  #makeAcquire(requested: Requested, claim: FireClaim | undefined, now: number): Terms {
    const { owner, mode, leaseMs } = requested;
    return ACQUIRE.termsOf({
      ...this.shared,
      ...requestedOperands(requested),
      job: encodeJob(claim?.job),
      fireKind: claim?.kind ?? '-',
      fireMs: claim?.ms ?? 0,
      fireAgeMs: claim ? Math.round(now - claim.calledAt) : 0,
      rememberMs: claim?.rememberMs ?? 0,
      rerun: claim?.rerunOnLoss ? 1 : 0,
      plain: mode === 'write' && owner === undefined && !claim ? 1 : 0,
      ttlMs: ttlMs(this.#keepMs, leaseMs),
    });
  }
}

/**
 * Makes the terms of requests. Those in a row nearly always have the same terms, which are one object then: to make them costs
 * more than all else that a request does before it is sent.
 */
function keepingLast<Request extends object>(
  areTheSame: (a: Request, b: Request) => boolean,
  make: (request: Request) => Terms,
): (request: Request) => Terms {
  let last: { readonly request: Request; readonly terms: Terms } | null = null;
  return (request) => {
    if (!last || !areTheSame(last.request, request)) last = { request, terms: make(request) };
    return last.terms;
  };
}

/** What an acquire of one lock, or of several, asks for. */
export function requestedOperands(requested: Requested) {
  const { owner, mode, leaseMs, waiterLeaseMs, maxWaiters = 0, permits, take = 1, holder, fair } = requested;
  const hold = { owner: encodeOwner(owner), mode, leaseMs: padded(leaseMs), waiterLeaseMs, maxWaiters, permits };
  return { ...hold, take, holder: oneLine(holder), fair: fair ? 1 : 0 };
}

/** Terms are one text with a value per line. */
export const oneLine = (text: string): string => text.replaceAll('\n', ' ');

/** The digits of a duration in milliseconds, and of a time in microseconds: the scripts compare them as texts. */
export const padded = (ms: number): string => String(ms).padStart(10, '0');

/** A job is part of a field's name, and of a list, so it has no blanks and colons. The scripts write a missing job as `-`. */
const encodeJob = (job: string | undefined): string => (job === undefined ? '-' : encodeURIComponent(job));

/** The scripts write a missing owner as `-`. */
function encodeOwner(owner: string | undefined): string {
  if (owner === undefined) return '-';
  return owner === '-' ? '%2D' : encodeURIComponent(owner);
}

/** The time to live of a key whose lease is set to this, as the scripts compute it (`keep()` in scripts/parts/save.ts). */
export const ttlMs = (keepMs: number, leaseMs: number): number => keepMs + leaseMs;
