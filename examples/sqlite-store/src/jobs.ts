import type { FireClaim, ReleaseRequest } from 'nestjs-redis-lock/store';
import { liveHold, type Job, type LockRecord } from './lock-record.js';

const FIRES_REMEMBERED = 16;

/** A claim from the view of the database, where the clock of a process means nothing: it contains the age of the call. */
export type Claim = Omit<FireClaim, 'calledAt'> & { readonly ageMs: number };

const jobOf = ({ jobs }: LockRecord, name: string | undefined): Job | undefined =>
  jobs.find((job) => job.name === name);

function fireOf({ kind, ms, ageMs }: Claim, now: number): number {
  if (kind === 'at') return ms;
  return kind === 'slot' ? Math.floor((now - ageMs) / ms) * ms : now;
}

/** Whether the fire was granted before. With `rerunOnLoss`, a run that ended without an outcome may be repeated. */
export function isClaimed(record: LockRecord, claim: Claim, now: number): boolean {
  const { fires = [], run } = jobOf(record, claim.job) ?? {};
  const fire = fireOf(claim, now);
  const repeats = claim.rerunOnLoss && run !== undefined && run.outcome === undefined;
  if (claim.kind === 'gap') return run !== undefined && Math.abs(now - run.fire) < claim.ms && !repeats;
  // A fire older than all remembered ones may also have been granted. A void claim leaves one fire less.
  const isKnown = fires.includes(fire) || (fires.length >= FIRES_REMEMBERED - 1 && fire < fires[0]!);
  return isKnown && !(repeats && run.fire === fire);
}

/** The attempt whose run of the claimed fire has no outcome yet. */
export function claimedBy(record: LockRecord, claim: Claim, now: number): string | undefined {
  const run = jobOf(record, claim.job)?.run;
  if (!run || run.outcome !== undefined) return undefined;
  return claim.kind === 'gap' || run.fire === fireOf(claim, now) ? run.attempt : undefined;
}

/** Begins the run of a granted fire; returns the fire. A repeated grant has already begun it. */
export function startRun(
  record: LockRecord,
  claim: Claim,
  by: { attempt: string; holder: string },
  now: number,
): number {
  const known = jobOf(record, claim.job);
  if (known?.run?.attempt === by.attempt) return known.run.fire;
  const fire = fireOf(claim, now);
  const job = known ?? { name: claim.job, fires: [], until: 0 };
  job.fires = [...new Set([...job.fires, fire])].sort((a, b) => a - b).slice(-FIRES_REMEMBERED);
  job.run = { fire, attempt: by.attempt, instance: by.holder.split(' ')[0]!, started: now };
  job.until = Math.max(job.until, now + claim.rememberMs);
  if (!known) record.jobs.push(job);
  return fire;
}

/** Ends the run of an attempt, once. `void`: it never began, and its fire may be claimed again. */
export function endRun(record: LockRecord, { job: name, attempt, runOutcome }: ReleaseRequest, now: number): void {
  const job = jobOf(record, name);
  const run = job?.run;
  if (run?.attempt !== attempt || run.outcome !== undefined) return;
  if (runOutcome === 'void') {
    job!.fires = job!.fires.filter((fire) => fire !== run.fire);
    job!.run = undefined;
  } else Object.assign(run, { outcome: runOutcome, ended: now });
}

/** Whether the run of a job is in progress: its outcome may still come. */
export const isRunning = (record: LockRecord, { run }: Job): boolean =>
  run?.outcome === undefined && liveHold(record, run?.attempt) !== undefined;
