import type {
  AcquireReply,
  AcquireRequest,
  AdoptReply,
  AdoptRequest,
  LostReply,
  ReleaseReply,
  ReleaseRequest,
  RenewReply,
  RenewRequest,
} from 'nestjs-redis-lock/store';
import { type Claim, claimedBy, endRun, isClaimed, startRun } from './jobs.js';
import {
  hasEnded,
  type Hold,
  leaveQueue,
  liveHold,
  type LockRecord,
  rememberEnd,
  type Waiter,
  type Wanted,
  wasRevoked,
} from './lock-record.js';

// How commands change the record of a lock. These functions use neither SQL nor a clock: they get settled records, and `now`.

export type Acquire = Omit<AcquireRequest, 'claim'> & { readonly claim?: Claim | undefined };

type Taking = Pick<Wanted, 'mode' | 'take'>;

/** Whether these holds leave room for one more; `permits`: the number set by an operator. */
function admits(holds: readonly Taking[], wanted: Wanted, permits = wanted.permits || Infinity): boolean {
  if (wanted.mode === 'write') return holds.length === 0;
  const taken = [...holds, wanted].reduce((sum, { take = 1 }) => sum + take, 0);
  return holds.every((hold) => hold.mode === 'read') && taken <= permits;
}

/** Whether it takes more permits than an operator has left. Such a request does not wait, and does not block others. */
const exceeds = ({ permits = Infinity }: LockRecord, { mode, take = 1 }: Taking): boolean =>
  mode === 'read' && take > permits;

/** The token with which an owner enters a lock that it holds. */
function tokenOfOwner({ holds, permits }: LockRecord, wanted: Wanted): number | undefined {
  const own = holds.filter(({ owner, token }) => token > 0 && owner !== undefined && owner === wanted.owner);
  if (own.length === 0) return undefined;
  const isWriter = own.some(({ mode }) => mode === 'write');
  return isWriter || admits(holds, wanted, permits) ? Math.max(...own.map(({ token }) => token)) : undefined;
}

/**
 * Whether a request can be granted now. A fair one counts the waiters before it as holders: a writer among them holds it back,
 * and readers do not.
 */
export function canEnter(record: LockRecord, wanted: Wanted): boolean {
  const { holds, permits } = record;
  const waiters = record.waiters.filter((waiter) => !exceeds(record, waiter));
  if (liveHold(record, wanted.attempt) || tokenOfOwner(record, wanted) !== undefined) return true;
  if (!wanted.fair) return admits(holds, wanted, permits);
  const place = waiters.findIndex(({ attempt }) => attempt === wanted.attempt);
  return admits([...holds, ...(place < 0 ? waiters : waiters.slice(0, place))], wanted, permits);
}

/** Grants all locks, or none. A busy request waits for each lock up to the first busy one. */
export function acquire(records: readonly LockRecord[], request: Acquire, now: number): AcquireReply {
  const reasons = records.map((record) => refusal(record, request, now));
  const refuser = reasons.findIndex((one) => one !== undefined);
  const reason = reasons[refuser];
  if (reason) {
    for (const record of records) leaveQueue(record, request.attempt);
    const claimer = reason === 'claimed' ? claimedBy(records[0]!, request.claim!, now) : undefined;
    const permits = reason === 'permits' ? records[refuser]!.permits : undefined;
    return { outcome: 'refused', reason, claimedBy: claimer, permits };
  }
  const busy = records.findIndex((record) => !canEnter(record, request));
  if (busy < 0) return grant(records, request, now);
  const isFull = isQueueFull(records[busy]!, request);
  for (const [i, record] of records.entries()) {
    if (isFull || i > busy) leaveQueue(record, request.attempt);
    else if (request.waiterLeaseMs > 0) joinQueue(record, request, now);
  }
  return { ...busyReply(records[busy]!, request.attempt, now), isFull };
}

/** Whether the queue is full for a request that does not have a place yet. */
function isQueueFull({ waiters }: LockRecord, { attempt, waiterLeaseMs, maxWaiters = 0 }: Acquire): boolean {
  if (waiterLeaseMs === 0 || maxWaiters === 0) return false;
  return waiters.length >= maxWaiters && !waiters.some((waiter) => waiter.attempt === attempt);
}

type Refusal = Extract<AcquireReply, { outcome: 'refused' }>['reason'];

function refusal(record: LockRecord, request: Acquire, now: number): Refusal | undefined {
  const { attempt, owner, mode, claim } = request;
  if (liveHold(record, attempt)) return undefined;
  if (hasEnded(record, attempt)) return 'released';
  const own = record.holds.filter((hold) => hold.token > 0 && owner !== undefined && hold.owner === owner);
  if (exceeds(record, request) && own.every((hold) => hold.mode === 'read')) return 'permits';
  // It would wait for itself.
  if (mode === 'write' && own.length > 0 && own.every((hold) => hold.mode === 'read')) return 'upgrade';
  return claim && isClaimed(record, claim, now) ? 'claimed' : undefined;
}

function grant(records: readonly LockRecord[], request: Acquire, now: number): AcquireReply {
  const holds = records.map((record) => take(record, request, now));
  return {
    outcome: 'granted',
    fencingTokens: holds.map(({ token }) => token),
    remainingMs: Math.min(...holds.map(({ until }) => until - now)),
    serverTimeMs: now,
    ...(request.claim && { fireMs: startRun(records[0]!, request.claim, request, now) }),
  };
}

function take(record: LockRecord, request: Acquire, now: number): Hold {
  const { attempt, owner, holder, mode, permits, take: count = 1, leaseMs } = request;
  leaveQueue(record, attempt);
  const known = liveHold(record, attempt);
  if (known) return stretch(known, leaseMs, now);
  // Microseconds since the epoch: tokens keep rising even after the record was forgotten.
  const token = tokenOfOwner(record, request) ?? Math.max(record.token + 1, now * 1_000);
  record.token = Math.max(record.token, token);
  const terms = { attempt, owner, holder, mode, permits, take: count };
  const hold = { ...terms, token, since: now, until: now + leaseMs, leaseMs };
  record.holds.push(hold);
  return hold;
}

/** A lease never gets shorter. */
function stretch(hold: Hold, leaseMs: number, now: number): Hold {
  hold.until = Math.max(hold.until, now + leaseMs);
  hold.leaseMs = Math.max(leaseMs, hold.until - now);
  return hold;
}

function joinQueue(
  record: LockRecord,
  { attempt, owner, mode, permits, take, fair, waiterLeaseMs, holder }: Acquire,
  now: number,
): void {
  const lease: Pick<Waiter, 'until' | 'leaseMs'> = { until: now + waiterLeaseMs, leaseMs: waiterLeaseMs };
  const known = record.waiters.find((waiter) => waiter.attempt === attempt);
  if (known) Object.assign(known, lease);
  else record.waiters.push({ attempt, owner, mode, permits, take, fair, holder, since: now, ...lease });
}

function busyReply(
  { holds, waiters, permits }: LockRecord,
  attempt: string,
  now: number,
): Extract<AcquireReply, { outcome: 'busy' }> {
  const writer = holds.find(({ mode, token }) => mode === 'write' && token > 0);
  return {
    outcome: 'busy',
    retryMs: holds.length > 0 ? Math.min(...holds.map(({ until }) => until - now)) : 0,
    ahead: Math.max(
      waiters.findIndex((waiter) => waiter.attempt === attempt),
      0,
    ),
    holder: writer?.holder,
    owner: writer && (writer.owner ?? writer.attempt),
    permits,
    serverTimeMs: now,
  };
}

export function renew(record: LockRecord, request: RenewRequest, now: number): RenewReply {
  const hold = heldWith(record, request);
  if (!hold) return lostReply(record, request.attempt);
  if (request.mode === 'read') hold.mode = 'read';
  stretch(hold, request.leaseMs, now);
  return { outcome: 'renewed', remainingMs: hold.until - now };
}

/** Gives the hold of `from` to another attempt. If that attempt already has it, its command was repeated. */
export function adopt(record: LockRecord, request: AdoptRequest, now: number): AdoptReply {
  const { attempt, from, holder, fencingToken, leaseMs } = request;
  let hold = heldWith(record, request);
  if (!hold) {
    const given = hasEnded(record, attempt) ? undefined : heldWith(record, { attempt: from, fencingToken });
    if (!given) return lostReply(record, wasRevoked(record, from) ? from : attempt);
    hold = { ...given, attempt, holder };
    record.holds[record.holds.indexOf(given)] = hold;
    rememberEnd(record, from);
  }
  stretch(hold, leaseMs, now);
  return { outcome: 'adopted', remainingMs: hold.until - now };
}

type Held = Pick<RenewRequest, 'attempt' | 'fencingToken'>;

function heldWith(record: LockRecord, { attempt, fencingToken }: Held): Hold | undefined {
  const hold = liveHold(record, attempt);
  return hold?.token === fencingToken ? hold : undefined;
}

const lostReply = (record: LockRecord, attempt: string): LostReply => ({
  outcome: 'lost',
  lastToken: record.token,
  revoked: wasRevoked(record, attempt),
});

/** `wasThere`: whether there was a hold of the attempt before the record was settled. */
export function release(record: LockRecord, request: ReleaseRequest, wasThere: boolean, now: number): ReleaseReply {
  const { attempt, holdAtLeastMs, runOutcome } = request;
  const hold = liveHold(record, attempt);
  const outcome = outcomeOf(record, attempt, wasThere);
  if (runOutcome && (hold || runOutcome === 'void')) endRun(record, request, now);
  leaveQueue(record, attempt);
  rememberEnd(record, attempt);
  if (hold) endHold(record, hold, hold.since + holdAtLeastMs, now);
  return { outcome, holds: record.holds.length, lastToken: record.token };
}

function outcomeOf(record: LockRecord, attempt: string, wasThere: boolean): ReleaseReply['outcome'] {
  if (liveHold(record, attempt)) return 'released';
  if (record.waiters.some((waiter) => waiter.attempt === attempt)) return 'cancelled';
  if (wasRevoked(record, attempt)) return 'revoked';
  if (hasEnded(record, attempt)) return 'again';
  return wasThere ? 'expired' : 'unknown';
}

function endHold(record: LockRecord, hold: Hold, parkedUntil: number, now: number): void {
  if (parkedUntil <= now) record.holds = record.holds.filter((one) => one !== hold);
  else Object.assign(hold, { token: 0, until: parkedUntil, leaseMs: parkedUntil - now });
}

/** Ends all holds; returns whether there were any. Waiters continue to wait. */
export function forceRelease(record: LockRecord, upToToken: number): boolean {
  // A hold kept for `holdAtLeastMs` no longer has a token: compare the time of its grant.
  const isSeen = ({ token, since }: Hold): boolean => (token || Math.min(since * 1_000, record.token)) <= upToToken;
  const revoked = record.holds.filter(isSeen);
  for (const { attempt } of revoked) rememberEnd(record, attempt, true);
  record.holds = record.holds.filter((hold) => !isSeen(hold));
  return revoked.length > 0;
}

/** Sets the number of permits, overriding the requests; null: the requests decide again. */
export function setPermits(record: LockRecord, permits: number | null): void {
  record.permits = permits ?? undefined;
}
