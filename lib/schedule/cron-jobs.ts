import { type ModulesContainer } from '@nestjs/core';
import { type CronTime } from './cron-timeline.js';
import { addedJob, localZone, tickingJob } from './job-ticks.js';
import { type CronOptions } from './schedule-metadata.js';
import { type CronJob, type SchedulerRegistry, isCronJob, registriesOf } from './scheduler-registries.js';

/** The cron jobs of the application. */
export class CronJobs {
  readonly #modules: Pick<ModulesContainer, 'values'>;
  readonly #known = new WeakMap<Function, CronJob>();
  #registries: readonly SchedulerRegistry[] = [];

  constructor(modules: Pick<ModulesContainer, 'values'>) {
    this.#modules = modules;
  }

  /**
   * The schedule that the job of a method has now, which may have been changed since it was declared (`setTime`): of the job
   * that calls the method, of the one with its name, or of any that was declared with its options. The job is kept, since
   * shutdown takes the jobs away before the calls end.
   */
  cronTimeOf(method: Function, options: CronOptions): CronTime | undefined {
    const found = callerOf(options) ?? this.#named(options.name) ?? this.#known.get(method) ?? this.#alike(options);
    if (found) this.#known.set(method, found);
    return found?.cronTime;
  }

  /** Whether the application has a scheduler at all. */
  get exist(): boolean {
    return this.#all().length > 0;
  }

  #named(name: string | undefined): CronJob | undefined {
    if (!name) return undefined;
    return this.#all()
      .find((jobs) => jobs.has(name))
      ?.get(name);
  }

  /** One that was not changed comes first: of two that were declared alike, the other one may have been. */
  #alike(options: CronOptions): CronJob | undefined {
    const jobs = this.#all().flatMap((all) => [...all.values()].filter((job) => isCronJob(job) && !job.name));
    return jobs.find((job) => isAlike(job.cronTime, options)) ?? jobs.find((job) => wasDeclared(job, options));
  }

  #all(): ReadonlyMap<string, CronJob>[] {
    if (this.#registries.length === 0) this.#registries = [...registriesOf(this.#modules)];
    return this.#registries.map((registry) => registry.getCronJobs());
  }
}

/** The job in whose tick the method is called, unless that is the job of another method. */
function callerOf(options: CronOptions): CronJob | undefined {
  const job = tickingJob();
  if (!job) return undefined;
  const isItsOwn = options.name ? addedJob(job)?.name === options.name : wasDeclared(job, options);
  return isItsOwn ? job : undefined;
}

/** Whether the job was, when it was added, what the options of a method say. */
function wasDeclared(job: CronJob, options: CronOptions): boolean {
  const was = addedJob(job);
  return was !== undefined && isAlike(was.cronTime, options, was.localZone);
}

function isAlike(
  cronTime: CronTime,
  { cronTime: source, timeZone, utcOffset }: CronOptions,
  ofProcess = localZone(),
): boolean {
  if (!isSame(cronTime.source, source) || cronTime.utcOffset !== (utcOffset ?? undefined)) return false;
  if (typeof utcOffset === 'number') return true;
  // Where there is neither, the scheduler goes by UTC.
  return (cronTime.timeZone ?? '') === (timeZone ?? ofProcess ?? '');
}

/** A date is another object in the job: one of luxon. */
const isSame = (one: CronOptions['cronTime'], other: CronOptions['cronTime']): boolean =>
  one === other || (typeof one === 'object' && typeof other === 'object' && Number(one) === Number(other));
