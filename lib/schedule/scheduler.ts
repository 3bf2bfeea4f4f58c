import { AsyncLocalStorage } from 'node:async_hooks';
import { type ModulesContainer, Reflector } from '@nestjs/core';
import type { CronTime } from './cron-timeline.js';

/** The modules of an app. */
export type Modules = Pick<ModulesContainer, 'values'>;

/** The metadata of the decorators of \@nestjs/schedule. The package is optional, so its names are repeated here. */
const TYPE = 'SCHEDULER_TYPE';
const OPTIONS = {
  cron: 'SCHEDULE_CRON_OPTIONS',
  interval: 'SCHEDULE_INTERVAL_OPTIONS',
  timeout: 'SCHEDULE_TIMEOUT_OPTIONS',
};
const CRON = 1;
const TIMEOUT = 2;
const INTERVAL = 3;

/** The parts of the options of `@Cron` that we use. */
export interface CronOptions {
  /** An expression, a Date, or a DateTime of luxon. */
  readonly cronTime: string | { valueOf(): number };
  readonly name?: string;
  readonly timeZone?: string;
  /** In minutes. */
  readonly utcOffset?: number;
}

export type Schedule =
  | { readonly kind: 'cron'; readonly options: CronOptions }
  /** The delay is in milliseconds. */
  | { readonly kind: 'interval' | 'timeout'; readonly delayMs: number };

const reflector = new Reflector();

/**
 * Finds the function called `name` with a schedule, on the instance or its prototypes. A decorator above the lock may have replaced
 * the method by a function with the schedule; a spy or instrumentation may have replaced it by one without a schedule.
 */
export function scheduledMethod(self: unknown, name: string | symbol): Function | undefined {
  for (let holder = self as object | null; holder; holder = Object.getPrototypeOf(holder) as object | null) {
    const method: unknown = Object.getOwnPropertyDescriptor(holder, name)?.value;
    if (typeof method === 'function' && hasSchedule(method)) return method;
  }
  return undefined;
}

/** The methods of a class, also inherited ones: for each name, that of the nearest class. */
export function* methodsOf(prototype: object | null): Generator<readonly [string | symbol, Function]> {
  const seen = new Set<string | symbol>();
  for (let holder = prototype; holder; holder = Object.getPrototypeOf(holder) as object | null) {
    for (const name of Reflect.ownKeys(holder)) {
      const method: unknown = Object.getOwnPropertyDescriptor(holder, name)!.value;
      if (seen.has(name) || typeof method !== 'function') continue;
      seen.add(name);
      yield [name, method];
    }
  }
}

export const hasSchedule = (method: Function): boolean =>
  [CRON, TIMEOUT, INTERVAL].includes(reflector.get<number>(TYPE, method));

/** Returns the schedule of a method. If there are several decorators, the outermost counts, as for the scheduler itself. */
export function scheduleOf(method: Function): Schedule | undefined {
  const type: unknown = reflector.get(TYPE, method);
  if (type === CRON) return { kind: 'cron', options: reflector.get<CronOptions>(OPTIONS.cron, method) };
  if (type === INTERVAL) return { kind: 'interval', delayMs: delayOf(OPTIONS.interval, method) };
  if (type === TIMEOUT) return { kind: 'timeout', delayMs: delayOf(OPTIONS.timeout, method) };
  return undefined;
}

/** The longest delay of a timer of Node. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** A timer of Node treats an invalid or too long delay as 1 ms, and drops fractions. */
function delayOf(key: string, method: Function): number {
  const { timeout } = reflector.get<{ readonly timeout?: unknown }>(key, method);
  const delayMs = Math.trunc(Number(timeout));
  return delayMs >= 1 && delayMs <= MAX_DELAY_MS ? delayMs : 1;
}

/** A cron job as it was added to its scheduler; `setTime` may have changed it since. */
interface AddedJob {
  readonly name: string;
  readonly cronTime: CronTime;
  /** The time zone of the process at that time; undefined if Node had none. */
  readonly localZone: string | undefined;
}

const ticking = new AsyncLocalStorage<CronJob>();
const added = new WeakMap<CronJob, AddedJob>();
const followed = new WeakSet<SchedulerRegistry>();

/** Returns the cron job in whose tick the caller runs. */
export const tickingJob = (): CronJob | undefined => ticking.getStore();

/** Returns the job as it was added; undefined for a job of a scheduler without `followJobs`. */
export const addedJob = (job: CronJob): AddedJob | undefined => added.get(job);

/** Returns the time zone of the process as the scheduler sees it; undefined if Node has none (`TZ=:/etc/localtime`). */
export const localZone = (): string | undefined => Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * Makes `tickingJob` work for all cron jobs of the app, including later ones. A job does not contain the method that it
 * calls, and it may call a method without a decorator of the schedule. The registry and the jobs work as before, and
 * spies on them see the same calls.
 */
export function followJobs(modules: Modules): void {
  for (const registry of registriesOf(modules)) {
    if (followed.has(registry)) continue;
    followed.add(registry);
    try {
      follow(registry);
    } catch {
      // In a test, any object may replace the registry; it has no ticks.
    }
  }
}

function follow(registry: SchedulerRegistry): void {
  for (const [name, job] of registry.getCronJobs()) followJob(name, job);
  registry.addCronJob = new Proxy(registry.addCronJob, {
    apply: (addCronJob, self: unknown, args: [string, CronJob, ...unknown[]]) => {
      const result: unknown = Reflect.apply(addCronJob, self, args);
      followJob(args[0], args[1]);
      return result;
    },
  });
}

/** Call this after the job was added: the registry replaces `fireOnTick`, and the timer calls that function only. */
function followJob(name: string, job: unknown): void {
  if (!isCronJob(job) || added.has(job)) return;
  added.set(job, { name, cronTime: job.cronTime, localZone: localZone() });
  job.fireOnTick = new Proxy(job.fireOnTick, {
    apply: (fireOnTick, self: unknown, args: unknown[]): unknown =>
      ticking.run(job, () => Reflect.apply(fireOnTick, self, args)),
  });
}

/** The parts of a CronJob of cron that we use. */
export interface CronJob {
  /** The name in the decorator; before version 4 of cron no job has one. */
  readonly name?: string | undefined;
  readonly cronTime: CronTime;
  /** Calls the function of the job. */
  fireOnTick: (...args: unknown[]) => unknown;
}

/** Whether it is a job of cron: a registry also accepts jobs of other libraries. */
export function isCronJob(job: unknown): job is CronJob {
  const { cronTime, fireOnTick } = (job ?? {}) as Partial<CronJob>;
  return typeof fireOnTick === 'function' && typeof cronTime === 'object' && cronTime !== null;
}

/** The parts of the SchedulerRegistry that we use. \@nestjs/schedule is optional, and may be installed in two copies. */
export interface SchedulerRegistry {
  addCronJob: (name: string, job: CronJob) => unknown;
  getCronJobs(): ReadonlyMap<string, CronJob>;
  deleteCronJob(name: string): unknown;
  getIntervals(): readonly string[];
  deleteInterval(name: string): unknown;
  getTimeouts(): readonly string[];
  deleteTimeout(name: string): unknown;
}

/** Finds registries by their token, because reading from other instances may have side effects (a proxy, a getter). */
export function* registriesOf(modules: Modules): Generator<SchedulerRegistry> {
  for (const module of modules.values()) {
    for (const [token, wrapper] of module.providers) {
      if (typeof token !== 'function') continue;
      const { prototype } = token as { prototype?: Partial<SchedulerRegistry> };
      if (typeof prototype?.getCronJobs !== 'function') continue;
      const { instance } = wrapper;
      if (typeof instance === 'object' && instance !== null) yield instance as SchedulerRegistry;
    }
  }
}

/**
 * Stops the jobs of \@nestjs/schedule, as its own shutdown hook does, before or after ours. Jobs that fire during the drain
 * would only be refused.
 */
export function stopJobs(modules: Modules): void {
  for (const registry of registriesOf(modules)) {
    try {
      for (const name of registry.getCronJobs().keys()) registry.deleteCronJob(name);
      for (const name of registry.getIntervals()) registry.deleteInterval(name);
      for (const name of registry.getTimeouts()) registry.deleteTimeout(name);
    } catch {
      // In a test, any object may replace the registry. A shutdown continues without it.
    }
  }
}
