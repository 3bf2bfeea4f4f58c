import {
  type AcquireReply,
  type AdoptRequest,
  type LostReply,
  TOKENS_OF_A_WRITER,
} from '../../../lib/core/store/lock-store.js';
import { type Hold, type Job, type MemoryLock, remember } from './memory-lock.js';
import { type ReceivedRequest } from './memory-queue.js';

/** How many fires of a job are remembered. */
const FIRES = 16;

/** Whether the lock has room for one more hold; parked ones count. */
export function admits(lock: MemoryLock, { mode, permits, take = 1 }: ReceivedRequest): boolean {
  const held = [...lock.holds.values()];
  if (mode === 'write') return held.length === 0;
  // What an operator has set counts for all requests.
  const most = lock.permits ?? (permits || Infinity);
  return held.every((hold) => hold.mode === 'read') && lock.taken + take <= most;
}

/** Whether a request takes more permits than an operator has left: it would wait until there are more. */
export const exceeds = ({ permits = Infinity }: MemoryLock, { mode, take = 1 }: ReceivedRequest): boolean =>
  mode === 'read' && take > permits;

/** The token with which a named owner re-enters the lock that it holds. */
export function entryToken(lock: MemoryLock, request: ReceivedRequest): number | undefined {
  if (request.owner === undefined) return undefined;
  const mine = lock.ofOwner(request.owner);
  const writing = mine.find(({ mode }) => mode === 'write');
  return writing ? writing.entry : admits(lock, request) ? mine[0]?.entry : undefined;
}

/** The readers of one owner re-enter with the greatest token that any of them got. */
export function shareEntry(lock: MemoryLock, hold: Hold): void {
  if (hold.owner === undefined) return;
  const readers = lock.ofOwner(hold.owner).filter(({ mode }) => mode === 'read');
  const greatest = Math.max(...readers.map((reader) => reader.entry));
  for (const reader of readers) reader.entry = greatest;
}

/** Makes a write hold a read hold, with the same lease and token. */
export function makeRead(lock: MemoryLock, hold: Hold): void {
  if (hold.mode === 'read') return;
  hold.mode = 'read';
  hold.entry = hold.token;
  shareEntry(lock, hold);
  if (lock.writer && lock.holds.get(lock.writer.attempt) === hold) lock.writer = undefined;
  // Its process may have given it a token behind its first one: the readers who enter now need greater ones.
  lock.token = Math.max(lock.token, hold.token + TOKENS_OF_A_WRITER - 1);
  lock.freed = true;
}

/** Replaces the token of a hold. Its owner re-enters with it, unless another of its holds has a greater one. */
export function replaceToken(lock: MemoryLock, hold: Hold, token: number): void {
  hold.token = token;
  lock.token = Math.max(lock.token, token);
  const kin = hold.owner === undefined ? [hold] : lock.ofOwner(hold.owner).filter(({ mode }) => mode === hold.mode);
  const entry = kin.length === 1 ? token : Math.max(hold.entry, token);
  for (const one of kin) one.entry = entry;
}

/**
 * Makes the hold of one attempt that of another, unless that one was released; returns it, also the second time. What the first
 * attempt still sends changes nothing.
 */
export function adopt(lock: MemoryLock, request: AdoptRequest): Hold | undefined {
  const { attempt, from, fencingToken, holder, unanswered } = request;
  const mine = lock.liveHold(attempt, fencingToken);
  const isGivenBack = lock.wasReleased(attempt) || lock.isLate(attempt);
  const found = mine ?? (isGivenBack ? undefined : lock.liveHold(from, fencingToken));
  if (found) lock.writes.change();
  if (!found || mine) return mine;
  const hold = { ...found, holder };
  lock.holds.delete(from);
  lock.holds.set(attempt, hold);
  if (lock.writer?.attempt === from) lock.writer = { ...lock.writer, attempt, holder };
  remember(lock.released, from);
  if (unanswered) lock.rememberLate(from);
  return hold;
}

/** Why a request is refused; undefined when it is not. */
export function refusal(
  lock: MemoryLock,
  request: ReceivedRequest,
  isKnown: boolean,
): 'released' | 'late' | 'permits' | 'upgrade' | 'claimed' | undefined {
  if (lock.liveHold(request.attempt)) return undefined;
  if (lock.holds.has(request.attempt) || lock.wasReleased(request.attempt) || lock.isLate(request.attempt))
    return 'released';
  if (!isKnown && isLate(lock, request)) return 'late';
  const mine = request.owner === undefined ? [] : lock.ofOwner(request.owner);
  if (exceeds(lock, request) && mine.every(({ mode }) => mode === 'read')) return 'permits';
  if (request.mode === 'write' && mine.length > 0 && mine.every(({ mode }) => mode === 'read')) return 'upgrade';
  return isClaimed(lock, request) ? 'claimed' : undefined;
}

/** Whether an attempt waits for the lock, or holds it. */
export const knows = ({ holds, queue, now }: MemoryLock, attempt: string): boolean =>
  holds.has(attempt) || (queue.of(attempt)?.deadline ?? 0) > now;

/** Whether a command is too old, or was sent before `late` forgot an attempt. */
function isLate({ micros, floorNow }: MemoryLock, { sentMicros, maxAgeMs = Infinity }: ReceivedRequest): boolean {
  if (sentMicros === undefined) return false;
  return sentMicros > micros || sentMicros <= floorNow || micros - sentMicros > maxAgeMs * 1_000;
}

function fireOf({ kind, ms, ageMs }: NonNullable<ReceivedRequest['claim']>, now: number): number {
  if (kind === 'at') return ms;
  return kind === 'slot' ? Math.floor((now - ageMs) / ms) * ms : now;
}

/** With `rerunOnLoss`, a run that ended without an outcome may be repeated. */
function isClaimed({ jobs, now }: MemoryLock, { claim }: ReceivedRequest): boolean {
  if (!claim) return false;
  const { run, fires = [] } = jobs.get(claim.job) ?? {};
  const fire = fireOf(claim, now);
  const repeats = claim.rerunOnLoss && run !== undefined && run.outcome === undefined;
  if (claim.kind === 'gap') return run !== undefined && Math.abs(now - run.fire) < claim.ms && !repeats;
  const isKnown = fires.includes(fire) || (fires.length >= FIRES - 1 && fire < fires[0]!);
  return isKnown && !(repeats && run.fire === fire);
}

/** The attempt whose run of the requested fire has no outcome yet. */
function claimedBy({ jobs, now }: MemoryLock, { claim }: ReceivedRequest): string | undefined {
  const run = claim && jobs.get(claim.job)?.run;
  const isOpen = claim && run && run.outcome === undefined && (claim.kind === 'gap' || run.fire === fireOf(claim, now));
  return isOpen ? run.attempt : undefined;
}

/** Remembers the fire of a request that was granted. */
export function startRun(lock: MemoryLock, { claim, attempt, holder }: ReceivedRequest, keepMs: number): void {
  if (!claim) return;
  const fire = fireOf(claim, lock.now);
  const job = rememberJob(lock, claim.job, Math.max(claim.rememberMs, keepMs));
  job.fires = [...new Set([...job.fires, fire])].toSorted((a, b) => a - b).slice(-FIRES);
  job.run = { fire, attempt, by: /^\S*/.exec(holder)![0], started: lock.now, ended: 0, outcome: undefined };
}

interface RunEnd {
  readonly job: string | undefined;
  readonly attempt: string;
  readonly outcome: 'done' | 'failed' | 'void';
  readonly keepMs: number;
}

/** `void`: the run never began, and its fire may be claimed again. */
export function endRun(lock: MemoryLock, { job: name, attempt, outcome, keepMs }: RunEnd): void {
  const job = name === undefined ? undefined : lock.jobs.get(name);
  const run = job?.run;
  if (run?.attempt !== attempt) return;
  if (outcome !== 'void') {
    run.ended = lock.now;
    run.outcome = outcome;
    rememberJob(lock, name!, keepMs);
  } else if (run.outcome === undefined) {
    job!.fires = job!.fires.filter((fire) => fire !== run.fire);
    job!.run = undefined;
  }
}

/** Remembers a job for this long, and forgets those whose time is over, unless they are running. */
function rememberJob({ jobs, holds, now }: MemoryLock, name: string, ms: number): Job {
  for (const [other, { run, until }] of jobs) {
    const isRun = run !== undefined && holds.has(run.attempt);
    if (other !== name && until <= now && !isRun) jobs.delete(other);
  }
  const job = jobs.get(name) ?? { fires: [], run: undefined, until: 0 };
  job.until = Math.max(job.until, now + ms);
  jobs.delete(name);
  jobs.set(name, job);
  return job;
}

/** A `busy` reply, and what the scripts say instead: a time that may be too early, and a place that may be too far back. */
export type BusyReply = Extract<AcquireReply, { outcome: 'busy' }> & {
  readonly rough: { readonly retryMs: number; readonly ahead: number; readonly unserved: boolean };
};

/** Builds the `busy` reply. */
export function busyReply(lock: MemoryLock, attempt: string): BusyReply {
  const remaining = [...lock.holds.values()].map(({ deadline }) => deadline - lock.now);
  const { head, waiters } = lock.queue;
  const place = waiters.filter((waiter) => waiter.place >= head).findIndex((waiter) => waiter.attempt === attempt);
  const { writer, bounds } = lock;
  const holder = writer && lock.liveHold(writer.attempt)?.mode === 'write' ? writer.holder : undefined;
  const written = [...lock.holds].find(([, { mode, token }]) => mode === 'write' && token > 0);
  return {
    outcome: 'busy',
    lastToken: lock.token,
    retryMs: remaining.length > 0 ? Math.min(...remaining) : 0,
    ahead: Math.max(place, 0),
    holder,
    owner: written && (written[1].owner ?? written[0]),
    permits: lock.permits,
    serverTimeMs: lock.now,
    rough: {
      retryMs: remaining.length > 0 ? bounds.due - lock.now : 0,
      ahead: Math.max((lock.queue.of(attempt)?.place ?? 0) - head, 0),
      unserved: lock.unserved,
    },
  };
}

/** The command arrived too late, at this time of the server. */
export interface LateReply {
  readonly outcome: 'refused';
  readonly reason: 'late';
  readonly micros: number;
}

/** Builds the reply of an acquire that this lock refuses for this reason. */
export const refusedReply = (
  reason: NonNullable<ReturnType<typeof refusal>>,
  { lock, request }: { lock: MemoryLock; request: ReceivedRequest },
): AcquireReply | LateReply =>
  reason === 'late'
    ? { outcome: 'refused', reason, micros: lock.micros }
    : {
        outcome: 'refused',
        reason,
        claimedBy: reason === 'claimed' ? claimedBy(lock, request) : undefined,
        permits: reason === 'permits' ? lock.permits : undefined,
      };

/** Ends a hold that its holder releases; it stays parked until `holdAtLeastMs` after its grant. */
export function endOrPark(
  lock: MemoryLock,
  { attempt, holdAtLeastMs, keepMs }: { attempt: string; holdAtLeastMs: number; keepMs: number },
): void {
  const hold = lock.holds.get(attempt)!;
  const { bounds, now } = lock;
  const deadline = Math.min(hold.since, now) + holdAtLeastMs;
  lock.end(attempt);
  // Otherwise the lock would be remembered for a lease that is gone.
  if (lock.holds.size === 0 || (hold.deadline >= bounds.latest && bounds.latest - now > keepMs)) lock.narrowBounds();
  if (deadline <= now) return;
  const parked = { ...hold, deadline, lease: deadline - now, token: 0, holder: '' };
  lock.holds.set(attempt, parked);
  bounds.include(parked);
}

/** Builds the reply of a command whose hold is gone. */
export const lostReply = (lock: MemoryLock, attempt: string): LostReply => ({
  outcome: 'lost',
  lastToken: lock.token,
  revoked: lock.wasRevoked(attempt),
});
