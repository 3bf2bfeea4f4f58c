import type { LastRun, LockState } from 'nestjs-redis-lock';
import { isRunning } from './jobs.js';
import { type LockRecord } from './lock-record.js';

// What people see of a record.

export function stateOf(key: string, { holds, waiters, token }: LockRecord, now: number): LockState {
  const isWritten = holds.some(({ mode }) => mode === 'write');
  const holders = holds.map(({ attempt, owner = attempt, mode, holder, since, until, token: fencingToken }) => ({
    ...partsOf(holder),
    owner,
    attempt,
    mode,
    since: new Date(since),
    remainingMs: until - now,
    fencingToken,
  }));
  const mode = holds.length === 0 ? 'free' : isWritten ? 'write' : 'read';
  return { key, mode, holders, waiters: waiters.length, fencingToken: token };
}

/** The text that names a holder is `host:pid Class.method`. */
function partsOf(holder: string): { readonly host: string; readonly pid: number; readonly where: string } {
  const [instance = '', ...where] = holder.split(' ');
  const colon = instance.lastIndexOf(':');
  return {
    host: instance.slice(0, Math.max(colon, 0)),
    pid: Number(instance.slice(colon + 1)),
    where: where.join(' '),
  };
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
