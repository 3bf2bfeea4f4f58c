import { type ModulesContainer } from '@nestjs/core';
import { type CronTime } from './cron-timeline.js';

export interface CronJob {
  readonly cronTime: CronTime;
}

/** What is used of the SchedulerRegistry of \@nestjs/schedule, which is optional and may be there in two copies. */
export interface SchedulerRegistry {
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
