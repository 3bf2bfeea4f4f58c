import { type ModulesContainer } from '@nestjs/core';
import { type CronTime } from './cron-timeline.js';
import { type CronOptions } from './schedule-metadata.js';
import { type CronJob, type SchedulerRegistry, registriesOf } from './scheduler-registries.js';

/** The cron jobs of the application. */
export class CronJobs {
  readonly #modules: Pick<ModulesContainer, 'values'>;
  readonly #known = new WeakMap<Function, CronTime>();
  #registries: readonly SchedulerRegistry[] = [];

  constructor(modules: Pick<ModulesContainer, 'values'>) {
    this.#modules = modules;
  }

  /**
   * The schedule of the job of a method: of the one with its name, which may have been changed since (`setTime`), or of
   * any with its options. The last answer is kept, since shutdown takes the jobs away before the calls end.
   */
  cronTimeOf(method: Function, options: CronOptions): CronTime | undefined {
    const found = this.#named(options.name) ?? this.#known.get(method) ?? this.#alike(options);
    if (found) this.#known.set(method, found);
    return found;
  }

  /** Whether the application has a scheduler at all. */
  get exist(): boolean {
    return this.#all().length > 0;
  }

  #named(name: string | undefined): CronTime | undefined {
    if (!name) return undefined;
    const jobs = this.#all().find((jobs) => jobs.has(name));
    return jobs?.get(name)?.cronTime;
  }

  #alike(options: CronOptions): CronTime | undefined {
    const cronTimes = this.#all().flatMap((jobs) => [...jobs.values()].map(({ cronTime }) => cronTime));
    return cronTimes.find((cronTime) => isAlike(cronTime, options));
  }

  #all(): ReadonlyMap<string, CronJob>[] {
    if (this.#registries.length === 0) this.#registries = [...registriesOf(this.#modules)];
    return this.#registries.map((registry) => registry.getCronJobs());
  }
}

function isAlike(cronTime: CronTime, { cronTime: source, timeZone, utcOffset }: CronOptions): boolean {
  if (cronTime.source !== source || cronTime.utcOffset !== (utcOffset ?? undefined)) return false;
  if (typeof utcOffset === 'number') return true;
  const systemZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (cronTime.timeZone ?? '') === (timeZone ?? systemZone);
}
