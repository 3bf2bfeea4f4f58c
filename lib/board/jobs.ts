import { type ModulesContainer } from '@nestjs/core';
import { jobName } from '../core/key.js';
import { jobOf, type LockedCall, lockedCallOf } from '../interceptor/locked-call.js';
import { CronJobs } from '../schedule/fire-finder.js';
import { scheduledMethod, scheduleOf } from '../schedule/schedule-metadata.js';

/** A job of this app that is locked with `oncePer`. */
export interface Job {
  /** `Class.method`. */
  readonly name: string;
  readonly key: string;
  /** When it is due next, in milliseconds since the epoch; null when only the app knows. */
  readonly nextMs: (nowMs: number) => number | null;
}

/** Finds the jobs of the app that are locked on this connection, each once. */
export function jobsIn(modules: Pick<ModulesContainer, 'values'>, connection: string | undefined): Job[] {
  const jobs = new Map<string, Job>();
  const cronJobs = new CronJobs(modules);
  for (const { providers, controllers } of modules.values()) {
    for (const { instance } of [...providers.values(), ...controllers.values()]) {
      for (const call of lockedCallsOf(instance)) {
        if (call.options.oncePer === undefined || call.options.connection !== connection) continue;
        const job = jobOfCall(call, instance as object, cronJobs);
        if (job) jobs.set(job.name, job);
      }
    }
  }
  return [...jobs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The locked methods of an object, also those that its class inherits. */
function* lockedCallsOf(instance: unknown): Generator<LockedCall> {
  if (typeof instance !== 'object' || instance === null) return;
  const seen = new Set<string | symbol>();
  for (let holder = prototypeOf(instance); holder; holder = prototypeOf(holder)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(holder))) {
      if (seen.has(name) || typeof value !== 'function') continue;
      seen.add(name);
      const call = lockedCallOf(value as Function);
      if (call) yield call;
    }
  }
}

const prototypeOf = (object: object): object | null => Object.getPrototypeOf(object) as object | null;

/** A scheduler calls its jobs without arguments: a key that needs some is that of no job. */
function jobOfCall(call: LockedCall, instance: object, cronJobs: CronJobs): Job | undefined {
  try {
    const key = call.keyOf(instance, []);
    if (typeof key !== 'string') return undefined;
    const method = scheduledMethod(instance, call.name) ?? call.method;
    return { name: jobName(jobOf(call, instance)), key, nextMs: (nowMs) => nextFire(call, method, cronJobs, nowMs) };
  } catch {
    return undefined;
  }
}

function nextFire(
  { options: { oncePer } }: LockedCall,
  method: Function,
  cronJobs: CronJobs,
  nowMs: number,
): number | null {
  if (typeof oncePer === 'number') return endOfSlot(oncePer, nowMs);
  if (oncePer !== 'fire') return null;
  const schedule = scheduleOf(method);
  if (schedule?.kind === 'interval') return endOfSlot(schedule.delayMs, nowMs);
  if (schedule?.kind !== 'cron') return null;
  try {
    return cronJobs.cronTimeOf(method, schedule.options)?.sendAt().toMillis() ?? null;
  } catch {
    // A date that is over.
    return null;
  }
}

const endOfSlot = (ms: number, nowMs: number): number => (Math.floor(nowMs / ms) + 1) * ms;
