import { AsyncLocalStorage } from 'node:async_hooks';
import { type ModulesContainer } from '@nestjs/core';
import { type CronTime } from './cron-timeline.js';

/** What a cron job was when it was added to its scheduler: it may have been changed since (`setTime`). */
interface AddedJob {
  readonly name: string;
  readonly cronTime: CronTime;
  /** The time zone of the process at that time; undefined: Node knew none. */
  readonly localZone: string | undefined;
}

const ticking = new AsyncLocalStorage<CronJob>();
const added = new WeakMap<CronJob, AddedJob>();
const followed = new WeakSet<SchedulerRegistry>();

/** The cron job in whose tick the caller runs. */
export const tickingJob = (): CronJob | undefined => ticking.getStore();

/** What the job was when it was added; undefined for a job of a scheduler that is not followed. */
export const addedJob = (job: CronJob): AddedJob | undefined => added.get(job);

/** The time zone of the process, as the scheduler asks for it; undefined: Node knows none (`TZ=:/etc/localtime`). */
export const localZone = (): string | undefined => Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * Has the ticks of all cron jobs of the app be known as such, of those that are added later, too: neither does a job tell
 * which method it calls, nor need a method be decorated to be called by one. The registry and the jobs work as before, and
 * what spies on them sees the same calls.
 */
export function followJobs(modules: Pick<ModulesContainer, 'values'>): void {
  for (const registry of registriesOf(modules)) {
    if (followed.has(registry)) continue;
    followed.add(registry);
    try {
      follow(registry);
    } catch {
      // What stands in for the registry in a test may be anything, and has no ticks.
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

/** After it was added, since the registry puts its own function there: only that is called by the timer. */
function followJob(name: string, job: unknown): void {
  if (!isCronJob(job) || added.has(job)) return;
  added.set(job, { name, cronTime: job.cronTime, localZone: localZone() });
  job.fireOnTick = new Proxy(job.fireOnTick, {
    apply: (fireOnTick, self: unknown, args: unknown[]): unknown =>
      ticking.run(job, () => Reflect.apply(fireOnTick, self, args)),
  });
}

/** What is used of a CronJob of cron. */
export interface CronJob {
  /** That of the decorator; before version 4 of cron no job has one. */
  readonly name?: string | undefined;
  readonly cronTime: CronTime;
  /** Calls what the job is for. */
  fireOnTick: (...args: unknown[]) => unknown;
}

/** Whether it is a job of cron: a registry takes those of other libraries, too. */
export function isCronJob(job: unknown): job is CronJob {
  const { cronTime, fireOnTick } = (job ?? {}) as Partial<CronJob>;
  return typeof fireOnTick === 'function' && typeof cronTime === 'object';
}

/** What is used of the SchedulerRegistry of \@nestjs/schedule, which is optional and may be there in two copies. */
export interface SchedulerRegistry {
  addCronJob: (name: string, job: CronJob) => unknown;
  getCronJobs(): ReadonlyMap<string, CronJob>;
  deleteCronJob(name: string): unknown;
  getIntervals(): readonly string[];
  deleteInterval(name: string): unknown;
  getTimeouts(): readonly string[];
  deleteTimeout(name: string): unknown;
}

/** Goes by the token, since touching the instances of strangers may have effects (a proxy, a getter). */
export function* registriesOf(modules: Pick<ModulesContainer, 'values'>): Generator<SchedulerRegistry> {
  for (const module of modules.values()) {
    for (const [token, wrapper] of module.providers) {
      if (typeof token !== 'function') continue;
      const { prototype } = token as { prototype?: Partial<SchedulerRegistry> };
      if (typeof prototype?.getCronJobs !== 'function') continue;
      if (wrapper.instance) yield wrapper.instance as SchedulerRegistry;
    }
  }
}

/**
 * Stops the jobs of \@nestjs/schedule, as its own shutdown hook does: before or after ours, by the order of the imports.
 * Jobs that fire while the holders of locks are waited for would only be refused.
 */
export function stopJobs(modules: Pick<ModulesContainer, 'values'>): void {
  for (const registry of registriesOf(modules)) {
    for (const name of registry.getCronJobs().keys()) registry.deleteCronJob(name);
    for (const name of registry.getIntervals()) registry.deleteInterval(name);
    for (const name of registry.getTimeouts()) registry.deleteTimeout(name);
  }
}
