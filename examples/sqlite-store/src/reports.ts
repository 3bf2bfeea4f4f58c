import { type LastRun, type LockState, readHolderText, waitsUntil } from 'nestjs-redis-lock';
import { isRunning } from './jobs.js';
import { type LockRecord } from './lock-record.js';

// What people see of a record.

export function stateOf(key: string, { holds, waiters, token }: LockRecord, now: number): LockState {
  const isWritten = holds.some(({ mode }) => mode === 'write');
  const holders = holds.map(({ attempt, owner = attempt, mode, holder, since, until, token: fencingToken }) => ({
    ...readHolderText(holder),
    owner,
    attempt,
    mode,
    since: new Date(since),
    remainingMs: until - now,
    fencingToken,
  }));
  const mode = holds.length === 0 ? 'free' : isWritten ? 'write' : 'read';
  const queue = waiters.map(({ attempt, owner = attempt, mode, holder, since }, i) => ({
    ...readHolderText(holder),
    owner,
    attempt,
    mode,
    place: i + 1,
    since: new Date(since),
    until: waitsUntil(holder, since),
  }));
  return { key, mode, holders, waiters: queue.length, queue, fencingToken: token };
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
