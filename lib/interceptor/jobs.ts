import { jobName } from '../core/key.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { durationText } from '../core/printable.js';
import { type Reporter } from '../core/reporter.js';
import { CronTimeline } from '../schedule/cron-timeline.js';
import { CronJobs } from '../schedule/fire-finder.js';
import { methodsOf, type Modules, scheduledMethod, scheduleOf } from '../schedule/scheduler.js';
import { jobOf, type LockedCall, lockedCallsOf } from './locked-call.js';
import { runNow } from './run-now.js';

export interface Job {
  /** `Class.method`, or the option `job`. */
  readonly name: string;
  readonly key: string;
  /** When it is due next, in milliseconds since the epoch; null if only the app can compute it. */
  readonly nextMs: (nowMs: number) => number | null;
  /** Runs the job manually, on this instance. */
  readonly run: () => Promise<unknown>;
}

/** A method of an object that is locked with `oncePer`. */
interface JobMethod {
  readonly instance: object;
  readonly call: LockedCall;
  readonly name: string;
  /** Undefined if it depends on the arguments. */
  readonly key: string | undefined;
}

/** Finds the jobs of the app that are locked on this connection, each once. */
export function jobsIn(modules: Modules, connection: string | undefined): Job[] {
  const jobs = new Map<string, Job>();
  const cronJobs = new CronJobs(modules);
  for (const { instance, call, name, key } of jobMethodsIn(modules, connection)) {
    // A scheduler calls its jobs without arguments: a key that needs arguments cannot be that of a job.
    if (key === undefined) continue;
    const method = scheduledMethod(instance, call.name) ?? call.method;
    const run = (): Promise<unknown> =>
      runNow(() => (instance as Record<string | symbol, () => unknown>)[call.name]!());
    jobs.set(idOf(name, key), { name, key, nextMs: (nowMs) => nextFire(call, method, cronJobs, nowMs), run });
  }
  return [...jobs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Refuses two jobs with one name and key, which would share their fires: one of them would silently never run. Objects of one class
 * may do the same work, so they cause only a warning.
 */
export function checkJobsDiffer(
  modules: Modules,
  connection: string | undefined,
  reporter: Pick<Reporter, 'warn'>,
): void {
  const methods = new Map<string, JobMethod[]>();
  for (const one of jobMethodsIn(modules, connection)) {
    const { name, key } = one;
    // Calls with other arguments have other keys.
    if (key === undefined) continue;
    const alike = methods.get(idOf(name, key)) ?? [];
    methods.set(idOf(name, key), [...alike, one]);
    const first = alike[0] ?? one;
    if (first.call.name === one.call.name && first.instance.constructor === one.instance.constructor) continue;
    throw new LockConfigurationError(
      `Two methods or classes have the job "${name}" with the key "${key}", so each fire would run in only one of ` +
        'them. Give one of them another name with the option `job`, or another key.',
    );
  }
  for (const [id, { length }] of methods) {
    if (length < 2) continue;
    const [name, key] = JSON.parse(id) as [string, string];
    reporter.warn(
      `The app has ${length} objects with the job "${name}" and the key "${key}": each fire runs on one of them. If they do ` +
        'different work, give each its own key, by a key function that uses `this`; otherwise let one module provide the class.',
    );
  }
}

/** Warns of each job whose next fires are skipped when an instance dies during a run. Call it when the scheduler has its jobs. */
export function warnOfLongLeases(
  modules: Modules,
  connection: string | undefined,
  defaultLeaseMs: number,
  reporter: Pick<Reporter, 'warn'>,
): void {
  const cronJobs = new CronJobs(modules);
  const lines = new Set<string>();
  for (const { instance, call, name } of jobMethodsIn(modules, connection)) {
    const { leaseMs = defaultLeaseMs } = call.options;
    const periodMs = periodOf(call, scheduledMethod(instance, call.name) ?? call.method, cronJobs);
    if (periodMs === undefined || leaseMs < periodMs) continue;
    lines.add(
      `The job ${name} has a lease of ${durationText(leaseMs)}, which is not shorter than its period of ${durationText(periodMs)}: when an ` +
        'instance dies during a run, the fires of a whole lease are skipped. Set `leaseMs` of the decorator to less than the period.',
    );
  }
  for (const line of lines) reporter.warn(line);
}

/** The length of the slots of a job, or its times; undefined if it is due once, or if only the app can compute them. */
function timesOf({ options: { oncePer } }: LockedCall, method: Function, cronJobs: CronJobs) {
  if (typeof oncePer === 'number') return oncePer;
  const schedule = scheduleOf(method);
  if (schedule?.kind === 'interval') return schedule.delayMs;
  return schedule?.kind === 'cron' ? cronJobs.cronTimeOf(method, schedule.options) : undefined;
}

/** The shortest time between two fires; undefined if there is one fire, or if only the app can compute it. */
function periodOf(call: LockedCall, method: Function, cronJobs: CronJobs): number | undefined {
  try {
    const times = timesOf(call, method, cronJobs);
    if (typeof times !== 'object') return times;
    return times.realDate ? undefined : new CronTimeline(times).shortestGapMs(Date.now());
  } catch {
    // An expression that never fires.
    return undefined;
  }
}

const idOf = (name: string, key: string): string => JSON.stringify([name, key]);

function* jobMethodsIn(modules: Modules, connection: string | undefined): Generator<JobMethod> {
  const instances = new Set<unknown>();
  for (const { providers, controllers } of modules.values()) {
    for (const { instance } of [...providers.values(), ...controllers.values()]) {
      if (typeof instance === 'object' && instance !== null) instances.add(instance);
    }
  }
  for (const instance of instances as Set<object>) {
    for (const [, method] of methodsOf(Object.getPrototypeOf(instance) as object | null)) {
      for (const call of lockedCallsOf(method)) {
        if (call.options.oncePer === undefined || call.options.connection !== connection) continue;
        yield { instance, call, name: jobName(jobOf(call, instance)), key: keyOf(call, instance) };
      }
    }
  }
}

function keyOf(call: LockedCall, instance: object): string | undefined {
  try {
    // A job has one key, which may be written as a list.
    const [key] = [call.keyOf(instance, [])].flat();
    return key;
  } catch {
    return undefined;
  }
}

function nextFire(call: LockedCall, method: Function, cronJobs: CronJobs, nowMs: number): number | null {
  if (typeof call.options.oncePer === 'function') return null;
  try {
    const times = timesOf(call, method, cronJobs);
    return typeof times === 'number' ? endOfSlot(times, nowMs) : (times?.sendAt().toMillis() ?? null);
  } catch {
    // A date in the past.
    return null;
  }
}

const endOfSlot = (ms: number, nowMs: number): number => (Math.floor(nowMs / ms) + 1) * ms;
