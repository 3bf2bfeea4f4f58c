import { type Type } from '@nestjs/common';
import { Cron, Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import { LockConfigurationError } from '../../../lib/core/lock.errors.js';
import { type App, closeApps, fireAt, startApp } from './schedule-app.js';
import { thrownBy } from '../../support/waiting/rejection.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const OFF = { disabled: true } as const;

class Jobs {
  @Cron('* * * * * *', OFF)
  everySecond() {}

  @Cron('*/5 * * * *', OFF)
  fiveFields() {}

  @Cron('30 */5 * * * *')
  sixFields() {}

  @Cron('0 2 * * *', { timeZone: 'Asia/Tokyo', ...OFF })
  inTokyo() {}

  @Cron('0 2 * * *', { utcOffset: -90, ...OFF })
  withOffset() {}

  @Cron('0 2 * * *', { timeZone: 'UTC', ...OFF })
  inUtc() {}

  @Cron('0 0 31 * *', { timeZone: 'UTC', ...OFF })
  monthEnds() {}

  @Cron('0 0 29 2 *', { timeZone: 'UTC', ...OFF })
  leapDays() {}

  @Cron('* * 9-17 * * 1-5', { timeZone: 'UTC', ...OFF })
  officeSeconds() {}

  @Cron(new Date('2031-05-06T07:08:09.123Z'))
  once() {}

  @Cron('0 0 31 2 *', OFF)
  never() {}

  @Interval(10_000)
  often() {}

  @Interval('named', 90_000.5)
  seldom() {}

  @Timeout(50)
  soon() {}

  @Timeout('named', 40_000)
  later() {}

  bare() {}
}

const started = async (jobs: Type = Jobs) => {
  const app = await startApp(jobs);
  await app.app.init();
  return app;
};

afterEach(closeApps);

describe('the fire of a call of a @Cron method', () => {
  it.each([
    ['sixFields', '2026-03-04T05:10:30.000Z', '2026-03-04T05:10:30Z'],
    ['sixFields', '2026-03-04T05:10:29.000Z', '2026-03-04T05:05:30Z'],
    ['inTokyo', '2026-03-04T17:00:00.010Z', '2026-03-04T17:00:00Z'],
    ['withOffset', '2026-03-04T03:30:00.010Z', '2026-03-04T03:30:00Z'],
    ['inUtc', '2026-03-04T02:00:00.010Z', '2026-03-04T02:00:00Z'],
  ])('%s at %s is that of %s', async (name, time, expected) => {
    expect(fireAt(await started(), name, time)).toBe(expected);
  });

  it.each([
    ['fiveFields', '50 ms early', '2026-03-04T05:09:59.950Z', '2026-03-04T05:10:00Z'],
    ['fiveFields', '51 ms early, which is late', '2026-03-04T05:09:59.949Z', '2026-03-04T05:05:00Z'],
    ['fiveFields', 'four minutes late', '2026-03-04T05:14:02.123Z', '2026-03-04T05:10:00Z'],
    ['inTokyo', 'hours late', '2026-03-05T16:59:00.000Z', '2026-03-04T17:00:00Z'],
    ['monthEnds', 'in a month without a 31st', '2026-04-30T12:00:00.000Z', '2026-03-31T00:00:00Z'],
    ['leapDays', 'years late', '2027-08-31T00:00:00.001Z', '2024-02-29T00:00:00Z'],
    ['officeSeconds', 'at a weekend', '2026-03-08T12:00:00.000Z', '2026-03-06T17:59:59Z'],
  ])('%s called %s', async (name, _how, time, expected) => {
    expect(fireAt(await started(), name, time)).toBe(expected);
  });

  it.each([
    ['everySecond', MINUTE],
    ['fiveFields', 10 * MINUTE],
    ['inTokyo', 2 * DAY],
    ['leapDays', 400 * DAY],
  ])('%s is remembered for two periods, within bounds', async (name, rememberMs) => {
    expect((await started()).claimAt(name, '2026-03-04T17:00:00.003Z')).toMatchObject({ kind: 'at', rememberMs });
  });

  it('is the date itself, which an earlier call by hand does not use up', async () => {
    const app = await started();
    const date = new Date('2031-05-06T07:08:09.123Z').getTime();
    expect(app.claimAt('once', date - 20)).toEqual({ kind: 'at', ms: date, rememberMs: DAY });
    expect(app.claimAt('once', date + DAY)).toEqual({ kind: 'at', ms: date, rememberMs: DAY });
    expect(app.claimAt('once', date - 60)).toEqual({ kind: 'at', ms: 0, rememberMs: MINUTE });
  });

  it('follows the clock of its instance, forwards and back', async () => {
    const app = await started();
    const times = ['05:09:59', '05:10:00', '05:14:59', '05:15:00', '05:20:00', '09:21:00', '05:14:00'];
    let now = 0;
    const finder = app.newFinder(() => now);
    const fires = times.map((time) => {
      now = new Date(`2026-03-04T${time}.000Z`).getTime();
      return new Date(finder.claimOf(app.methodOf('fiveFields'), 'here').ms).toISOString().slice(11, 16);
    });
    expect(fires).toEqual(['05:05', '05:10', '05:10', '05:15', '05:20', '09:20', '05:10']);
  });

  it('asks the library at most once for a fire', async () => {
    const app = await started();
    let now = new Date('2026-03-04T05:10:00.000Z').getTime();
    const finder = app.newFinder(() => now);
    const ask = () => finder.claimOf(app.methodOf('fiveFields'), 'here');
    ask();
    const [cronTime] = [...app.registry().getCronJobs().values()]
      .map((job) => job.cronTime)
      .filter(({ source }) => source === '*/5 * * * *');
    const getNext = cronTime!.getNextDateFrom.bind(cronTime);
    let questions = 0;
    cronTime!.getNextDateFrom = (...args) => ((questions += 1), getNext(...args));
    for (let call = 0; call < 100; call += 1) ask();
    expect(questions).toBe(0);
    now += 5 * MINUTE;
    for (let call = 0; call < 100; call += 1) ask();
    expect(questions).toBe(1);
  });
});

describe('the claim of other schedules', () => {
  it.each([
    ['often', { kind: 'slot', ms: 10_000, rememberMs: MINUTE }],
    ['seldom', { kind: 'slot', ms: 90_000, rememberMs: 3 * MINUTE }],
    ['soon', { kind: 'gap', ms: 1_000, rememberMs: MINUTE }],
    ['later', { kind: 'gap', ms: 40_000, rememberMs: 80_000 }],
  ])('%s', async (name, expected) => {
    expect((await startApp(Jobs)).claimAt(name, 0)).toEqual(expected);
  });
});

describe('a call whose fire is unknown', () => {
  const refusalOf = (run: () => unknown): Error => {
    const error = thrownBy(run);
    expect(error).toBeInstanceOf(LockConfigurationError);
    return error;
  };

  it('is refused without a scheduler', async () => {
    const app = await startApp(Jobs, []);
    expect(refusalOf(() => app.claimAt('fiveFields', 0)).message).toContain('Import ScheduleModule.forRoot()');
  });

  it('is refused when the scheduler excludes cron jobs', async () => {
    const app = await startApp(Jobs, [ScheduleModule.forRoot({ cronJobs: false })]);
    await app.app.init();
    expect(refusalOf(() => app.claimAt('fiveFields', 0)).message).toContain('oncePer: <milliseconds>');
  });

  it('is refused with an expression that never fires', async () => {
    const app = await started();
    const error = refusalOf(() => app.claimAt('never', Date.now()));
    expect(error.message).toContain('the times of "0 0 31 2 *" cannot be computed. Check that it ever fires');
    expect(error.cause).toBeInstanceOf(Error);
  });
});

class CronJobs {
  @Cron('0 * * * *', { name: 'hourly', disabled: true })
  named() {}

  @Cron('0 * * * *', { disabled: true })
  unnamed() {}

  @Cron(new Date('2031-05-06T07:08:09.000Z'), { name: 'once', disabled: true })
  date() {}

  @Cron(new Date('2032-05-06T07:08:09.000Z'), { disabled: true })
  unnamedDate() {}
}

const NOW = '2026-03-04T05:25:00.000Z';

/** Sets the time of a job, as applications do at run time; the class of the time is that of the job at hand. */
function setTime(app: App, name: string, expression: string): void {
  const job = app.registry().getCronJob(name);
  const CronTime = job.cronTime.constructor as new (source: string) => typeof job.cronTime;
  job.setTime(new CronTime(expression));
}

describe('the cron job of a method', () => {
  it('may have been created for a date', async () => {
    const app = await started(CronJobs);
    expect(app.claimAt('date', NOW)).toMatchObject({ kind: 'at', ms: 0 });
    setTime(app, 'once', '*/10 * * * *');
    expect(fireAt(app, 'date', NOW)).toBe('2026-03-04T05:20:00Z');
  });

  it('is remembered when a shutdown has removed it', async () => {
    const app = await started(CronJobs);
    const finder = app.newFinder(() => new Date(NOW).getTime());
    const fires = () => ['named', 'unnamed'].map((name) => finder.claimOf(app.methodOf(name), 'here').ms);
    const before = fires();
    await app.app.close();
    expect(app.registry().getCronJobs().size).toBe(0);
    expect(fires()).toEqual(before);
  });

  it('is found next to the job of another library', async () => {
    const app = await startApp(CronJobs);
    app.registry().addCronJob('foreign', { stop: () => undefined } as never);
    await app.app.init();
    expect(fireAt(app, 'unnamed', NOW)).toBe('2026-03-04T05:00:00Z');
  });

  it('is also noticed without a name for a date', async () => {
    const app = await started(CronJobs);
    expect(app.claimAt('unnamedDate', NOW)).toMatchObject({ kind: 'at', ms: 0 });
    const [name] = [...app.registry().getCronJobs()].find(([, { cronTime, name }]) => cronTime.realDate && !name)!;
    setTime(app, name, '*/10 * * * *');
    expect(fireAt(app, 'unnamedDate', NOW)).toBe('2026-03-04T05:20:00Z');
  });

  it('is found among several schedulers', async () => {
    const app = await startApp(CronJobs, [ScheduleModule.forRoot({ cronJobs: false }), ScheduleModule.forRoot()]);
    await app.app.init();
    expect(fireAt(app, 'named', NOW)).toBe('2026-03-04T05:00:00Z');
  });
});
