import 'reflect-metadata';
import { Inject, Injectable, Logger, Module, type ModuleMetadata, type Type } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Cron, Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import {
  currentLock,
  LockConfigurationError,
  Locked,
  type LockedOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { closePlaces, gateOfTest } from '../support/places.js';

/** Jobs run until this is settled. */
const UNTIL = Symbol('until');
type Until = Pick<ReturnType<typeof gateOfTest>, 'opened'>;

/** What one instance of an app did: the keys under which jobs ran, and the fires by `lastRun`. */
@Injectable()
class Runs {
  readonly ran: string[] = [];
  readonly fires: string[] = [];

  constructor(
    readonly locks: RedisLockService,
    @Inject(UNTIL) readonly until: Until,
  ) {}

  async work(): Promise<void> {
    const { key } = currentLock();
    this.ran.push(key);
    const run = await this.locks.lastRun(key);
    if (run) this.fires.push(`${key} ${run.fire.getTime()}`);
    await this.until.opened;
  }
}

/** Long enough that both apps of a test have started meanwhile. */
const START_MS = 3_000;

const SCHEDULES: Record<string, MethodDecorator> = {
  cron: Cron('* * * * * *'),
  interval: Interval(50),
  timeout: Timeout(START_MS),
};
const OPTIONS: Record<string, LockedOptions> = { skip: { ifBusy: 'skip' }, fire: { oncePer: 'fire' } };

/** A job with the schedule above or below the lock, and the key `<where>-<schedule>-<place>-<option>`. */
function jobOf(where: string, schedule: string, place: string, option: string): Type {
  const locked: MethodDecorator = Locked(`${where}-${schedule}-${place}-${option}`, OPTIONS[option]) as MethodDecorator;
  const decorators = [SCHEDULES[schedule]!, locked];
  const [upper, lower] = (place === 'above' ? decorators : decorators.toReversed()) as [
    MethodDecorator,
    MethodDecorator,
  ];
  @Injectable()
  class Job {
    constructor(readonly runs: Runs) {}

    @upper
    @lower
    async run(): Promise<void> {
      await this.runs.work();
    }
  }
  return Job;
}

const CASES = Object.keys(SCHEDULES).flatMap((schedule) =>
  ['above', 'below'].flatMap((place) => Object.keys(OPTIONS).map((option) => [schedule, place, option] as const)),
);

interface JobApp extends LockApp {
  readonly runs: Runs;
  readonly skipped: { readonly key: string; readonly reason: string }[];
}

async function start(keyPrefix: string, until: Until, metadata: ModuleMetadata): Promise<JobApp> {
  const skipped: JobApp['skipped'] = [];
  const app = await startApp(
    { keyPrefix },
    {
      ...metadata,
      imports: [ScheduleModule.forRoot()],
      providers: [Runs, { provide: UNTIL, useValue: until }, ...(metadata.providers ?? [])],
    },
  );
  app.locks.events.on('skipped', ({ key, reason }) => skipped.push({ key, reason }));
  return { ...app, runs: app.app.get(Runs), skipped };
}

afterEach(closePlaces);

describe('the jobs of providers and controllers', () => {
  it('run under their lock on one of two instances, with the decorator of the schedule above or below', async () => {
    const jobsOf = (where: string) => CASES.map((one) => jobOf(where, ...one));
    const metadata = { providers: jobsOf('provider'), controllers: jobsOf('controller') };
    const prefix = `${freshKey('schedule')}:`;
    const until = gateOfTest();
    const apps = await Promise.all([0, 1].map(() => start(prefix, until, metadata)));
    const ran = () => apps.flatMap(({ runs }) => runs.ran);
    const keys = ['provider', 'controller']
      .flatMap((where) => CASES.map((one) => [where, ...one].join('-')))
      .toSorted();
    await eventually(
      () => {
        const seen = new Set(apps.flatMap(({ skipped }) => skipped.map(({ key }) => key)));
        return ran().length >= keys.length && keys.every((key) => seen.has(key));
      },
      { timeoutMs: 20_000 },
    );
    expect(ran().toSorted()).toEqual(keys);
    until.open();
    const goesOn = keys.filter((key) => !key.includes('timeout'));
    await eventually(() => goesOn.every((key) => ran().filter((one) => one === key).length > 2));
    const fires = apps.flatMap(({ runs }) => runs.fires);
    expect(fires.toSorted()).toEqual([...new Set(fires)].toSorted());
    expect(ran().filter((key) => key.includes('timeout'))).toHaveLength(8);
  });
});

@Injectable()
abstract class HourlyJob {
  constructor(readonly runs: Runs) {}

  @Interval(3_600_000)
  @Locked('rescheduled', { oncePer: 'fire' })
  async run(): Promise<void> {
    await this.runs.work();
  }
}

/** Has its own schedule, and the lock of the base. */
@Injectable()
class SecondlyJob extends HourlyJob {
  @Cron('* * * * * *')
  override async run(): Promise<void> {
    await super.run();
  }
}

/** Starts two instances whose jobs do not wait. */
async function startFree(providers: Type[]) {
  const until = gateOfTest();
  until.open();
  const prefix = `${freshKey('schedule')}:`;
  const apps = await Promise.all([0, 1].map(() => start(prefix, until, { providers })));
  return { fires: () => apps.flatMap(({ runs }) => runs.fires) };
}

describe('a job of an abstract base, with the decorators on the base,', () => {
  it('runs by the schedule of an override that calls it, once per fire', async () => {
    const { fires } = await startFree([SecondlyJob]);
    await eventually(() => fires().length > 1);
    const times = fires().map((fire) => Number(fire.split(' ').at(-1)));
    expect(times.map((time) => time % 1_000)).toEqual(times.map(() => 0));
    expect(new Set(times).size).toBe(times.length);
  });
});

describe('a job of a lazy module, which @nestjs/schedule does not start', () => {
  @Injectable()
  class LazyJobs {
    constructor(readonly runs: Runs) {}

    @Interval(60_000)
    @Locked('lazy-interval', { oncePer: 'fire' })
    async interval(): Promise<void> {
      await this.runs.work();
    }

    @Cron('0 0 1 1 *')
    @Locked('lazy-cron', { oncePer: 'fire' })
    async cron(): Promise<void> {
      await this.runs.work();
    }
  }

  async function startLazy(prefix: string) {
    const until = gateOfTest();
    until.open();
    const app = await start(prefix, until, {});
    @Module({ providers: [LazyJobs, { provide: Runs, useValue: app.runs }] })
    class LazyModule {}
    const moduleRef = await app.app.get(LazyModuleLoader).load(() => LazyModule);
    return { ...app, jobs: moduleRef.get(LazyJobs) };
  }

  it('runs once per slot of its @Interval when all instances call it by hand', async () => {
    const prefix = `${freshKey('schedule')}:`;
    const [a, b] = [await startLazy(prefix), await startLazy(prefix)];
    await Promise.all([a, b, a].map(({ jobs }) => jobs.interval()));
    const fires = [...a.runs.fires, ...b.runs.fires];
    expect(new Set(fires).size).toBe(fires.length);
    expect(fires.length + a.skipped.length + b.skipped.length).toBe(3);
  });

  it('is refused with a @Cron and `oncePer: fire`, since the scheduler does not have its fires', async () => {
    const { jobs, runs } = await startLazy(`${freshKey('schedule')}:`);
    const error = await rejection(jobs.cron());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^LazyJobs\.cron: .*the scheduler does not have a cron job "0 0 1 1 \*"/);
    expect(runs.ran).toEqual([]);
  });
});

/** The scheduler passes it on to cron, although its type does not name it. */
const RUN_ON_INIT = { runOnInit: true } as object;

describe('a job that ticks while the scheduler creates it', () => {
  afterEach(closePlaces);

  it.each([
    ['with a name', { ...RUN_ON_INIT, name: 'report' }],
    ['without a name', RUN_ON_INIT],
  ])('runs once per fire %s, although it is registered only afterwards', async (_name, options) => {
    const key = freshKey();
    const runs: string[] = [];

    @Injectable()
    class Reports {
      @Cron('0 0 12 * * *', options)
      @Locked(key, { oncePer: 'fire' })
      async noon(): Promise<void> {
        runs.push(key);
      }
    }
    const { locks } = await startApp({}, { imports: [ScheduleModule.forRoot()], providers: [Reports] });
    await eventually(async () => (await locks.lastRun(key))?.outcome === 'done');
    expect(runs).toEqual([key]);
  });
});

describe('a job that runs once per fire, in an app without a scheduler', () => {
  class Reports {
    @Cron('0 0 12 * * *')
    @Locked('noon', { oncePer: 'fire' })
    async noon(): Promise<void> {}

    @Cron('0 0 12 * * *')
    @Locked('other')
    async other(): Promise<void> {}
  }

  afterEach(() => jest.restoreAllMocks());

  class Inherits extends Reports {}

  class BehindAnother {
    @Cron('0 0 12 * * *')
    @Locked('database')
    @Locked('noon', { oncePer: 'fire', job: 'Reports.noon' })
    async noon(): Promise<void> {}
  }

  it.each<[string, ModuleMetadata]>([
    ['provider', { providers: [Reports] }],
    ['controller', { controllers: [Reports] }],
    ['subclass', { providers: [Inherits] }],
    ['below another lock', { providers: [BehindAnother] }],
  ])('causes one warning when the app starts, which names what to import (%s)', async (_what, where) => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const start = async (...imports: NonNullable<ModuleMetadata['imports']>) => {
      warn.mockClear();
      await (await startApp({}, { imports, ...where })).close();
      return warn.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('.noon'));
    };
    expect(await start()).toEqual([
      expect.stringMatching(/Nothing fires (Reports|BehindAnother)\.noon: .*ScheduleModule\.forRoot\(\)/),
    ]);
    expect(await start(ScheduleModule.forRoot())).toEqual([]);
  });
});

describe('a job whose lease is not shorter than its period', () => {
  const jobWith = (schedule: MethodDecorator | null, options: LockedOptions): Type => {
    class Reports {
      @Locked(freshKey(), { oncePer: 'fire', ...options })
      async noon(): Promise<void> {}
    }
    schedule?.(Reports.prototype, 'noon', Object.getOwnPropertyDescriptor(Reports.prototype, 'noon')!);
    return Reports;
  };

  afterEach(() => jest.restoreAllMocks());

  it.each<[string, Type, string | null]>([
    ['@Interval(5_000)', jobWith(Interval(5_000), {}), '5000 ms'],
    ['@Interval(30_000)', jobWith(Interval(30_000), {}), '30000 ms'],
    ['@Cron every 5 seconds', jobWith(Cron('*/5 * * * * *'), {}), '5000 ms'],
    ['@Cron in bursts', jobWith(Cron('0,10 0 0 1 1 *', { timeZone: 'UTC' }), {}), '10000 ms'],
    ['slots of 5 seconds', jobWith(null, { oncePer: 5_000 }), '5000 ms'],
    ['@Interval(5_000) and a shorter lease', jobWith(Interval(5_000), { leaseMs: 4_999 }), null],
    ['@Cron at noon', jobWith(Cron('0 0 12 * * *'), {}), null],
    ['@Cron at a date', jobWith(Cron(new Date('2099-01-01')), {}), null],
    ['@Timeout(5_000)', jobWith(Timeout(5_000), {}), null],
    ['no schedule', jobWith(null, {}), null],
  ])('causes one warning when the app starts, which names the period: %s', async (_what, Reports, period) => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const metadata = { imports: [ScheduleModule.forRoot()], providers: [Reports] };
    await (await startApp({ leaseMs: 30_000 }, metadata)).close();
    const lines = warn.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('Reports.noon'));
    const text = `Reports\\.noon has a lease of 30000 ms, .* its period of ${period}.*\`leaseMs\``;
    expect(lines).toEqual(period === null ? [] : [expect.stringMatching(new RegExp(text, 'u'))]);
  });
});
