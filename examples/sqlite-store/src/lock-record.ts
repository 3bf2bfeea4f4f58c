import type { LockMode } from 'nestjs-redis-lock';
import type { AcquireRequest } from 'nestjs-redis-lock/store';

/** The parts of a request that decide whether the lock can be entered. */
export type Wanted = Pick<AcquireRequest, 'attempt' | 'owner' | 'mode' | 'permits' | 'take' | 'fair'>;

/** One hold. With token 0 it is parked: it has no holder, and keeps the lock taken until `holdAtLeastMs` is over. */
export interface Hold {
  readonly attempt: string;
  readonly owner?: string | undefined;
  readonly holder: string;
  readonly since: number;
  readonly take: number;
  readonly permits: number;
  mode: LockMode;
  token: number;
  until: number;
  /** The maximum remaining lease: if more is left, the clock of the machine was set back. */
  leaseMs: number;
}

/** One place in the queue. */
export interface Waiter extends Wanted {
  readonly holder: string;
  readonly since: number;
  until: number;
  leaseMs: number;
}

/** The last run of a job. */
interface Run {
  readonly fire: number;
  readonly attempt: string;
  readonly instance: string;
  readonly started: number;
  ended?: number;
  outcome?: 'done' | 'failed';
}

export interface Job {
  readonly name: string;
  fires: number[];
  run?: Run | undefined;
  until: number;
}

/** One lock: a row of the table, as JSON. */
export interface LockRecord {
  /** The last fencing token. */
  token: number;
  holds: Hold[];
  waiters: Waiter[];
  /** Recently released or revoked attempts: if their acquire is sent again, it must not get the lock. */
  ended: { readonly attempt: string; readonly isRevoked: boolean }[];
  jobs: Job[];
  /** The number of permits, if an operator has set it. */
  permits?: number | undefined;
}

const ENDED_REMEMBERED = 32;

/** How long the permits set by an operator outlast the last use of the lock. */
const PERMITS_KEPT_MS = 30 * 24 * 3_600_000;

export const newRecord = (): LockRecord => ({ token: 0, holds: [], waiters: [], ended: [], jobs: [] });

/** Drops what has expired. Each command does so first, so nothing has to happen at the end of a lease. */
export function settle(record: LockRecord, now: number): void {
  for (const lease of [...record.holds, ...record.waiters]) lease.until = Math.min(lease.until, now + lease.leaseMs);
  record.holds = record.holds.filter(({ until }) => until > now);
  record.waiters = record.waiters.filter(({ until }) => until > now);
  record.jobs = record.jobs.filter(({ until, run }) => until > now || liveHold(record, run?.attempt) !== undefined);
}

/** The hold of an attempt, unless it is parked. */
export const liveHold = ({ holds }: LockRecord, attempt: string | undefined): Hold | undefined =>
  holds.find((hold) => hold.attempt === attempt && hold.token > 0);

export const hasEnded = ({ ended }: LockRecord, attempt: string): boolean =>
  ended.some((one) => one.attempt === attempt);

export const wasRevoked = ({ ended }: LockRecord, attempt: string): boolean =>
  ended.some((one) => one.attempt === attempt && one.isRevoked);

export function rememberEnd(record: LockRecord, attempt: string, isRevoked = false): void {
  if (hasEnded(record, attempt)) return;
  record.ended = [...record.ended, { attempt, isRevoked }].slice(-ENDED_REMEMBERED);
}

export function leaveQueue(record: LockRecord, attempt: string): void {
  record.waiters = record.waiters.filter((waiter) => waiter.attempt !== attempt);
}

/** Until when the row has to be kept. */
export function keptUntil({ holds, waiters, jobs, permits }: LockRecord, now: number, keepMs: number): number {
  const last = Math.max(now, ...[...holds, ...waiters, ...jobs].map(({ until }) => until)) + keepMs;
  return permits === undefined ? last : Math.max(last, now + PERMITS_KEPT_MS);
}
