import { types } from 'node:util';
import { LockConfigurationError } from '../core/lock.errors.js';
import { shortened } from '../core/read-options.js';
import { messageOf } from '../core/reporter.js';
import { type FireClaim } from '../core/store/fires.js';
import { type CronTime, CronTimeline } from './cron-timeline.js';
import {
  addedJob,
  type CronJob,
  type CronOptions,
  isCronJob,
  localZone,
  type Modules,
  registriesOf,
  scheduleOf,
  type SchedulerRegistry,
  tickingJob,
} from './scheduler.js';

/** How early, by the wall clock, a timer may fire. */
const EARLY_MS = 50;
const MIN_GAP_MS = 1_000;
/** The minimum time for which a claim is remembered: clocks and event loops of the instances may differ. */
const MIN_REMEMBER_MS = 60_000;
const DAY = 24 * 3_600_000;
const MAX_REMEMBER_MS = 400 * DAY;

/** The fire that a call of a scheduled method claims; `at` 0 stands for any call before the first fire. */
export type FireSpec = Omit<FireClaim, 'job' | 'rerunOnLoss' | 'calledAt'>;

export class FireFinder {
  readonly #jobs: CronJobs;
  readonly #now: () => number;
  readonly #timelines = new WeakMap<CronTime, CronTimeline>();

  /** @param now returns the local time, in milliseconds since the epoch */
  constructor(modules: Modules, now: () => number) {
    this.#jobs = new CronJobs(modules);
    this.#now = now;
  }

  /**
   * Returns the fire that a call made now belongs to: the latest one that is due. A manual call belongs to the fire before
   * it, whether or not the job is `disabled`: that may differ between instances, and a job may be started later.
   * @param where the method, for error texts: `Class.method`
   * @throws LockConfigurationError if there is no schedule, or the application does not have the job
   */
  claimOf(method: Function, where: string): FireSpec {
    try {
      return this.#claimOf(method, where);
    } catch (cause) {
      if (cause instanceof LockConfigurationError) throw cause;
      // Metadata that no decorator of @nestjs/schedule writes, or a replaced registry.
      throw refusal(
        where,
        `its schedule cannot be read: ${messageOf(cause)}. Use the decorators of the schedule`,
        cause,
      );
    }
  }

  #claimOf(method: Function, where: string): FireSpec {
    const schedule = scheduleOf(method);
    if (!schedule) return this.#claimOfTick(where);
    if (schedule.kind === 'cron') return this.#claimOfCron(method, schedule.options, where);
    if (schedule.kind === 'interval') {
      return { kind: 'slot', ms: schedule.delayMs, rememberMs: rememberMs(schedule.delayMs) };
    }
    const ms = Math.max(schedule.delayMs, MIN_GAP_MS);
    return { kind: 'gap', ms, rememberMs: rememberMs(ms) };
  }

  #claimOfCron(method: Function, options: CronOptions, where: string): FireSpec {
    const cronTime = this.#jobs.cronTimeOf(method, options);
    if (cronTime) return this.#claimOfTime(cronTime, where);
    if (typeof options.cronTime !== 'string') return this.#claimOfDate(options.cronTime);
    throw this.#noJob(options, where);
  }

  /** The fire of a method without its own schedule, which a job of the SchedulerRegistry calls. */
  #claimOfTick(where: string): FireSpec {
    const job = tickingJob();
    if (job) return this.#claimOfTime(job.cronTime, where);
    const problem =
      'the method has no @Cron, @Interval or @Timeout of @nestjs/schedule, and no cron job of the SchedulerRegistry has ' +
      'called it. Put one on it, or name the fire by a function (`oncePer: () => date`)';
    throw refusal(where, problem);
  }

  #claimOfTime(cronTime: CronTime, where: string): FireSpec {
    if (cronTime.realDate) return this.#claimOfDate(cronTime.source);
    let fire;
    try {
      fire = this.#timelineOf(cronTime).lastFire(this.#now() + EARLY_MS);
    } catch (cause) {
      const expression = `"${shortened(String(cronTime.source))}"`;
      throw refusal(where, `the times of ${expression} cannot be computed. Check that it ever fires`, cause);
    }
    if (!fire) return BEFORE_THE_FIRST;
    return { kind: 'at', ms: fire.atMs, rememberMs: rememberMs(fire.nextMs - fire.atMs) };
  }

  /** A manual call before the date must not use up its fire. */
  #claimOfDate(date: string | { valueOf(): number }): FireSpec {
    const ms = Number(date);
    return ms >= 0 && Number.isSafeInteger(ms) && ms <= this.#now() + EARLY_MS
      ? { kind: 'at', ms, rememberMs: DAY }
      : BEFORE_THE_FIRST;
  }

  #timelineOf(cronTime: CronTime): CronTimeline {
    let timeline = this.#timelines.get(cronTime);
    if (!timeline) this.#timelines.set(cronTime, (timeline = new CronTimeline(cronTime)));
    return timeline;
  }

  #noJob(options: CronOptions, where: string): LockConfigurationError {
    if (!this.#jobs.exist) {
      return refusal(where, 'the application has no scheduler. Import ScheduleModule.forRoot() of @nestjs/schedule');
    }
    const job = options.name
      ? `the cron job "${shortened(options.name)}"`
      : `a cron job "${shortened(String(options.cronTime))}"`;
    const advice = 'Call the method after the start of the application, and give a job that is changed a `name`';
    return refusal(where, `the scheduler does not have ${job} (yet, or any longer). ${advice}`);
  }
}

/**
 * Returns the fire of the Date that a function returned. It has no period, so it is remembered for a day.
 * @throws LockConfigurationError unless the value is a Date from 1970 on
 */
export function fireOfDate(date: unknown, where: string): FireSpec {
  const ms = types.isDate(date) ? date.getTime() : NaN;
  if (ms >= 0) return { kind: 'at', ms, rememberMs: DAY };
  throw new LockConfigurationError(
    `${where}: the function \`oncePer\` returned ${describe(date)}, expected a Date from 1970 on; return the time at which the ` +
      'job was due (it cannot be async).',
  );
}

function describe(value: unknown): string {
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? 'an invalid Date' : 'a Date before 1970';
  if (value === null || value === undefined) return String(value);
  return types.isPromise(value) ? 'a promise' : `a value of type ${typeof value}`;
}

const BEFORE_THE_FIRST: FireSpec = { kind: 'at', ms: 0, rememberMs: MIN_REMEMBER_MS };

/** How long the fire of a schedule with this period is remembered: two periods, because instances may be late. */
export function rememberMs(periodMs: number): number {
  return Math.min(Math.max(2 * periodMs, MIN_REMEMBER_MS), MAX_REMEMBER_MS);
}

function refusal(where: string, problem: string, cause?: unknown): LockConfigurationError {
  const message = `${where}: \`oncePer: 'fire'\`, but ${problem}, or claim slots of time with \`oncePer: <milliseconds>\`.`;
  return new LockConfigurationError(message, cause === undefined ? {} : { cause });
}

export class CronJobs {
  readonly #known = new WeakMap<Function, CronJob>();
  #registries: readonly SchedulerRegistry[] = [];

  constructor(private readonly modules: Modules) {}

  /**
   * Returns the present schedule of the job of a method; `setTime` may have changed it. The job is the one that calls the
   * method, the one with its name, or any that was declared with its options. It is remembered, because a shutdown removes
   * the jobs before the calls end.
   */
  cronTimeOf(method: Function, options: CronOptions): CronTime | undefined {
    const found = callerOf(options) ?? this.#named(options.name) ?? this.#known.get(method) ?? this.#alike(options);
    if (found) this.#known.set(method, found);
    return found?.cronTime;
  }

  /** Whether the app has a scheduler. */
  get exist(): boolean {
    return this.#all().length > 0;
  }

  #named(name: string | undefined): CronJob | undefined {
    if (!name) return undefined;
    return this.#all()
      .find((jobs) => jobs.has(name))
      ?.get(name);
  }

  /** A job with its original time comes first: two jobs may have been declared alike, and one of them changed. */
  #alike(options: CronOptions): CronJob | undefined {
    const jobs = this.#all().flatMap((all) => [...all.values()].filter((job) => isCronJob(job) && !job.name));
    return jobs.find((job) => isAlike(job.cronTime, options)) ?? jobs.find((job) => wasDeclared(job, options));
  }

  #all(): ReadonlyMap<string, CronJob>[] {
    if (this.#registries.length === 0) this.#registries = [...registriesOf(this.modules)];
    return this.#registries.map((registry) => registry.getCronJobs());
  }
}

/** The job whose tick calls the method, unless it is the job of another method. */
function callerOf(options: CronOptions): CronJob | undefined {
  const job = tickingJob();
  if (!job) return undefined;
  const isItsOwn = options.name ? addedJob(job)?.name === options.name : wasDeclared(job, options);
  return isItsOwn ? job : undefined;
}

/** Whether the job was added with the options of a method. */
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
  // With neither, the scheduler uses UTC.
  return (cronTime.timeZone ?? '') === (timeZone ?? ofProcess ?? '');
}

/** The job stores a date as another object, a luxon DateTime. */
const isSame = (one: CronOptions['cronTime'], other: CronOptions['cronTime']): boolean =>
  one === other || (typeof one === 'object' && typeof other === 'object' && Number(one) === Number(other));
