import { type ModulesContainer } from '@nestjs/core';
import { type CronTime } from './cron-timeline.js';

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
