import { type LastRun, type LockPermits, type LockState } from 'nestjs-redis-lock';
import { readHolderText, waitsUntil } from 'nestjs-redis-lock/store';
import { isRunning } from './jobs.js';
import { type LockRecord } from './lock-record.js';

// A record in readable form.

export function stateOf(key: string, record: LockRecord, now: number): LockState {
  const { holds, waiters, token } = record;
  const isWritten = holds.some(({ mode }) => mode === 'write');
  const holders = holds.map(({ attempt, owner = attempt, mode, take, holder, since, until, token: fencingToken }) => ({
    ...readHolderText(holder),
    owner,
    attempt,
    mode,
    take,
    since: new Date(since),
    remainingMs: until - now,
    fencingToken,
  }));
  const mode = holds.length === 0 ? 'free' : isWritten ? 'write' : 'read';
  const queue = waiters.map(({ attempt, owner = attempt, mode, take = 1, holder, since }, i) => ({
    ...readHolderText(holder),
    owner,
    attempt,
    mode,
    take,
    place: i + 1,
    since: new Date(since),
    until: waitsUntil(holder, since),
  }));
  return {
    key,
    mode,
    holders,
    waiters: queue.length,
    queue,
    permits: permitsOf(record),
    fencingToken: token,
    readAt: new Date(now),
  };
}

/** The number of permits: set by an operator, or by the last reader. */
function permitsOf({ holds, permits }: LockRecord): LockPermits | null {
  const readers = holds.filter(({ mode }) => mode === 'read');
  const allowed = permits ?? (readers.at(-1)?.permits || undefined);
  if (allowed === undefined) return null;
  const used = readers.reduce((sum, { take }) => sum + take, 0);
  return { allowed, used, available: readers.length === holds.length ? Math.max(allowed - used, 0) : 0 };
}

/** The run of this job; without one, the run that began last. */
export function lastRunOf(record: LockRecord, name: string | undefined): LastRun | null {
  const jobs = record.jobs.filter((job) => job.run && (name === undefined || job.name === name));
  const [last] = jobs.sort((a, b) => b.run!.started - a.run!.started);
  if (!last?.run) return null;
  const { fire, instance, attempt, started, ended, outcome } = last.run;
  return {
    job: last.name,
    fire: new Date(fire),
    instance,
    attempt,
    started: new Date(started),
    ended: ended === undefined ? null : new Date(ended),
    outcome: outcome ?? (isRunning(record, last) ? 'running' : 'lost'),
  };
}
