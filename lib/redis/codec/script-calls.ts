import { type AcquireRequest } from '../../core/store/lock-store.js';
import { type LockScripts } from '../scripts/lock-scripts.js';

/** What all scripts that change a lock are told. */
export interface SharedOperands {
  readonly keepMs: number;
  readonly channelPrefix: string;
  readonly countReceivers: number;
}

/** When an acquire is sent, and how old it may get. */
export interface AcquireTimes {
  /** On our monotonic clock, to tell how old a fire is. */
  readonly now: number;
  /** By the server's clock, as far as it is known. */
  readonly sentMicros: number;
  readonly maxAgeMs: number;
}

/** The script and the operands of an acquire. */
export function acquireCall(
  { acquire, acquireMany }: LockScripts,
  { keys, claim, ...request }: AcquireRequest,
  shared: SharedOperands,
  storageKey: (key: string) => string,
  { now, ...age }: AcquireTimes,
) {
  const { attempt, owner, mode, leaseMs, waiterLeaseMs, fair, permits, holder } = request;
  const wish = { attempt, owner: encodeOwner(owner), mode, leaseMs, waiterLeaseMs, permits, holder };
  const common = { ...shared, ...wish, ...age, fair: fair ? 1 : 0 };
  if (keys.length > 1) {
    return { script: acquireMany, operands: acquireMany.operands({ ...common, lock: keys.map(storageKey) }) };
  }
  const operands = acquire.operands({
    ...common,
    lock: storageKey(keys[0]!),
    job: encodeJob(claim?.job),
    fireKind: claim?.kind ?? '-',
    fireMs: claim?.ms ?? 0,
    fireAgeMs: claim ? Math.round(now - claim.calledAt) : 0,
    rememberMs: claim?.rememberMs ?? 0,
    rerun: claim?.rerunOnLoss ? 1 : 0,
  });
  return { script: acquire, operands };
}

/** A part of a field's name, and of a list: without blanks and colons. The scripts write no job as `-`. */
export const encodeJob = (job: string | undefined): string => (job === undefined ? '-' : encodeURIComponent(job));

/** The scripts write no owner as `-`. */
function encodeOwner(owner: string | undefined): string {
  if (owner === undefined) return '-';
  return owner === '-' ? '%2D' : encodeURIComponent(owner);
}
