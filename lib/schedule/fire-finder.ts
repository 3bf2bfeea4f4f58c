import { types } from 'node:util';
import { type ModulesContainer } from '@nestjs/core';
import { type FireClaim } from '../core/store/lock-store.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { type CronTime, CronTimeline } from './cron-timeline.js';
import {
  tickingJob,
  addedJob,
  localZone,
  type CronJob,
  type SchedulerRegistry,
  isCronJob,
  registriesOf,
} from './scheduler.js';
import { type CronOptions, scheduleOf } from './schedule-metadata.js';

/** A timer may fire a hair early by the wall clock. */
const EARLY_MS = 50;
const LEAST_GAP_MS = 1_000;
const LEAST_REMEMBER_MS = 60_000;
const DAY = 24 * 3_600_000;
const MOST_REMEMBER_MS = 400 * DAY;

/** What a call of a scheduled method claims; `at` 0 stands for what is called before the first fire. */
export type Fire = Omit<FireClaim, 'job' | 'rerunOnLoss' | 'calledAt'>;

/** Tells which fire of its schedule a call of a method belongs to. */
export class FireFinder {
  readonly #jobs: CronJobs;
  readonly #now: () => number;
  readonly #timelines = new WeakMap<CronTime, CronTimeline>();

  /** @param now the local clock, in milliseconds since 1970 */
  constructor(modules: Pick<ModulesContainer, 'values'>, now: () => number) {
    this.#jobs = new CronJobs(modules);
    this.#now = now;
  }

  /**
   * The fire that a call made now belongs to: the latest one that is due. A call by hand belongs to the fire before it,
   * whether or not the job is `disabled`: that may differ from instance to instance, and a job may be started later.
   * @param where the method, for messages: `Class.method`
   * @throws LockConfigurationError if there is no schedule, or the application has no such job
   */
  claimOf(method: Function, where: string): Fire {
    const schedule = scheduleOf(method);
    if (!schedule) return this.#claimOfTick(where);
    if (schedule.kind === 'cron') return this.#claimOfCron(method, schedule.options, where);
    if (schedule.kind === 'interval') {
      return { kind: 'slot', ms: schedule.delayMs, rememberMs: rememberMs(schedule.delayMs) };
    }
    const ms = Math.max(schedule.delayMs, LEAST_GAP_MS);
    return { kind: 'gap', ms, rememberMs: rememberMs(ms) };
  }

  #claimOfCron(method: Function, options: CronOptions, where: string): Fire {
    const cronTime = this.#jobs.cronTimeOf(method, options);
    if (cronTime) return this.#claimOfTime(cronTime, where);
    if (typeof options.cronTime !== 'string') return this.#claimOfDate(options.cronTime);
    throw this.#noJob(options, where);
  }

  /** Of a method that is not decorated, but called by a job of the SchedulerRegistry. */
  #claimOfTick(where: string): Fire {
    const job = tickingJob();
    if (job) return this.#claimOfTime(job.cronTime, where);
    const problem =
      'the method has no @Cron, @Interval or @Timeout of @nestjs/schedule, and no cron job of the SchedulerRegistry has ' +
      'called it. Put one on it, or name the fire by a function (`oncePer: () => date`)';
    throw refusal(where, problem);
  }

  #claimOfTime(cronTime: CronTime, where: string): Fire {
    if (cronTime.realDate) return this.#claimOfDate(cronTime.source);
    let fire;
    try {
      fire = this.#timelineOf(cronTime).lastFire(this.#now() + EARLY_MS);
    } catch (cause) {
      const expression = `"${String(cronTime.source)}"`;
      throw refusal(where, `the times of ${expression} cannot be worked out. Check that it ever fires`, cause);
    }
    if (!fire) return BEFORE_THE_FIRST;
    return { kind: 'at', ms: fire.atMs, rememberMs: rememberMs(fire.nextMs - fire.atMs) };
  }

  /** A call by hand before the date must not use up the fire. */
  #claimOfDate(date: string | { valueOf(): number }): Fire {
    const ms = Number(date);
    return ms <= this.#now() + EARLY_MS ? { kind: 'at', ms, rememberMs: DAY } : BEFORE_THE_FIRST;
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
    const job = options.name ? `the cron job "${options.name}"` : `a cron job "${String(options.cronTime)}"`;
    const advice = 'Call the method after the start of the application, and give a job that is changed a `name`';
    return refusal(where, `the scheduler does not have ${job} (yet, or any more). ${advice}`);
  }
}

/**
 * The fire that a function named. Its period is unknown, so it is remembered as one of a date is.
 * @throws LockConfigurationError for what is no Date from 1970 on
 */
export function fireOfDate(date: unknown, where: string): Fire {
  const ms = types.isDate(date) ? date.getTime() : NaN;
  if (ms >= 0) return { kind: 'at', ms, rememberMs: DAY };
  throw new LockConfigurationError(
    `${where}: the function \`oncePer\` gave ${describe(date)}, expected a Date from 1970 on; return the time at which the ` +
      'job was due (it cannot be async).',
  );
}

function describe(value: unknown): string {
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? 'an invalid Date' : 'a Date before 1970';
  if (value === null || value === undefined) return String(value);
  return types.isPromise(value) ? 'a promise' : `a value of type ${typeof value}`;
}

const BEFORE_THE_FIRST: Fire = { kind: 'at', ms: 0, rememberMs: LEAST_REMEMBER_MS };

/** Two periods, for instances whose clocks differ or that come late. */
function rememberMs(periodMs: number): number {
  return Math.min(Math.max(2 * periodMs, LEAST_REMEMBER_MS), MOST_REMEMBER_MS);
}

function refusal(where: string, problem: string, cause?: unknown): LockConfigurationError {
  const message = `${where}: \`oncePer: 'fire'\`, but ${problem}, or claim slots of time with \`oncePer: <milliseconds>\`.`;
  return new LockConfigurationError(message, cause === undefined ? {} : { cause });
}

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
