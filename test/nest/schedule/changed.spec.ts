import 'reflect-metadata';
import { Injectable, type OnModuleInit, type Provider } from '@nestjs/common';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { CronJob, CronTime } from 'cron';
import { LockConfigurationError, Locked, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

const FIRE = { oncePer: 'fire', spreadMs: 0 } as const;
const YEARLY = '0 0 0 1 1 *';
const SECONDLY = '* * * * * *';

/** The fires that an instance ran, by job, in milliseconds. */
@Injectable()
class Fires {
  readonly all: { readonly job: string; readonly fire: number }[] = [];

  constructor(private readonly locks: RedisLockService) {}

  async note(key: string, job: string): Promise<void> {
    const run = await this.locks.lastRun(key, job);
    this.all.push({ job, fire: run!.fire.getTime() });
  }
}

/** Starts an instance of an app with jobs. */
async function startJobs(providers: readonly Provider[], keyPrefix = `${freshKey('schedule')}:`) {
  const imports = [ScheduleModule.forRoot()];
  const { app, locks } = await startApp({ keyPrefix }, { imports, providers: [Fires, ...providers] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ key, reason }) => skipped.push(`${key} ${reason}`));
  return { app, skipped, fires: app.get(Fires).all, registry: app.get(SchedulerRegistry) };
}

type JobsApp = Awaited<ReturnType<typeof startJobs>>;

/** Starts two instances of an app with jobs. */
async function startTwoJobs(...providers: Provider[]): Promise<readonly [JobsApp, JobsApp]> {
  const prefix = `${freshKey('schedule')}:`;
  return Promise.all([startJobs(providers, prefix), startJobs(providers, prefix)]);
}

/** The fires of a job that were run, on any of the instances. */
const firesOf = (apps: readonly JobsApp[], job: string): number[] =>
  apps.flatMap(({ fires }) => fires.filter((one) => one.job === job).map(({ fire }) => fire));

/** Asserts that the job has run in at least three seconds of the last minute, each time on one instance. */
async function expectOncePerSecond(apps: readonly JobsApp[], job: string): Promise<void> {
  // Those of different instances are noted in any order.
  const latest = (): number[] => firesOf(apps, job).filter((fire) => fire > Date.now() - 60_000);
  await eventually(() => latest().length >= 3, { timeoutMs: 20_000 });
  const fires = latest();
  expect(new Set(fires).size).toBe(fires.length);
  expect(fires.filter((fire) => fire % 1_000 !== 0)).toEqual([]);
}

@Injectable()
class Declared {
  constructor(readonly fires: Fires) {}

  @Cron(YEARLY)
  @Locked('changed', FIRE)
  async changed(): Promise<void> {
    await this.fires.note('changed', 'Declared.changed');
  }

  @Cron(YEARLY)
  @Locked('uncalled', FIRE)
  async uncalled(): Promise<void> {
    await this.fires.note('uncalled', 'Declared.uncalled');
  }

  /** Like the others, but its time does not change. */
  @Cron(YEARLY)
  @Locked('kept', FIRE)
  async kept(): Promise<void> {
    await this.fires.note('kept', 'Declared.kept');
  }

  @Cron(YEARLY, { name: 'named' })
  @Locked('named', FIRE)
  async named(): Promise<void> {
    await this.fires.note('named', 'Declared.named');
  }

  @Cron(SECONDLY)
  @Locked('wrapped', FIRE)
  async wrapped(): Promise<void> {
    await this.fires.note('wrapped', 'Declared.wrapped');
  }
}

@Injectable()
class Wrappable {
  constructor(readonly fires: Fires) {}

  @Cron(SECONDLY)
  @Locked('instrumented', FIRE)
  async run(): Promise<void> {
    await this.fires.note('instrumented', 'Instrumented.run');
  }
}

/** Like instrumentation that wraps a method when its object is made. */
const wrapped = (copiesMetadata: boolean) =>
  class Instrumented extends Wrappable {
    constructor(fires: Fires) {
      super(fires);
      const method: Function = Object.getOwnPropertyDescriptor(Wrappable.prototype, 'run')!.value;
      const wrapper = async (): Promise<void> => method.call(this);
      for (const key of copiesMetadata ? Reflect.getMetadataKeys(method) : []) {
        Reflect.defineMetadata(key, Reflect.getMetadata(key, method), wrapper);
      }
      this.run = wrapper;
    }
  };

/** The jobs of `Declared` without a name, in the order in which they were declared. */
const unnamed = ({ registry }: JobsApp): CronJob[] =>
  [...registry.getCronJobs()]
    .filter(([name, { cronTime }]) => name !== 'named' && cronTime.source === YEARLY)
    .map(([, job]) => job);

// All jobs of these apps fire in the same seconds, so that the tests wait for them together.
let apps: readonly JobsApp[];
let spies: ReturnType<typeof jest.fn>[];
let changedJobs: CronJob[];

beforeAll(async () => {
  apps = await startTwoJobs(Declared, wrapped(true));
  spies = apps.map(({ app }) => jest.spyOn(app.get(Declared), 'wrapped') as never);
  // They run once by the former time, which is remembered.
  for (const { app } of apps) await Promise.all([app.get(Declared).changed(), app.get(Declared).named()]);
  for (const name of ['changed', 'named']) expect(firesOf(apps, `Declared.${name}`)).toHaveLength(1);
  changedJobs = apps.flatMap((app) => [...unnamed(app).slice(0, 2), app.registry.getCronJob('named')]);
  for (const job of changedJobs) job.setTime(new CronTime(SECONDLY));
});

afterAll(async () => {
  await closeAll();
  jest.restoreAllMocks();
});

describe('a @Cron job whose time is changed while the app runs', () => {
  it.each([
    ['without a name', 'changed'],
    ['with a name', 'named'],
    ['without a name that was never called before', 'uncalled'],
  ])('%s runs once per fire of the new time, on all instances', async (_which, name) => {
    await expectOncePerSecond(apps, `Declared.${name}`);
  });

  it('also belongs to the latest fire of that time when it is called by hand', async () => {
    for (const job of changedJobs) void job.stop();
    const calledAt = Date.now();
    await apps[0]!.app.get(Declared).changed();
    const { fire } = (await apps[0]!.app.get(RedisLockService).lastRun('changed'))!;
    expect(fire.getTime()).toBeGreaterThan(calledAt - 1_000);
  });

  it('is not mistaken for another one that was declared with the same time', async () => {
    for (const { app } of apps) await app.get(Declared).kept();
    expect(firesOf(apps, 'Declared.kept')).toEqual([new Date(new Date().getFullYear(), 0, 1).getTime()]);
  });
});

describe('a @Cron job whose method is wrapped on its instance', () => {
  it('runs once per fire when a spy replaces the method after the start', async () => {
    await expectOncePerSecond(apps, 'Declared.wrapped');
    const before = spies.map((spy) => spy.mock.calls.length);
    for (const { app } of apps) await app.get(Declared).wrapped();
    for (const [i, spy] of spies.entries()) expect(spy.mock.calls.length).toBeGreaterThan(before[i]!);
  });

  it('runs once per fire when the wrapper has the metadata of the method', async () => {
    await expectOncePerSecond(apps, 'Instrumented.run');
  });

  it('runs when it is called by hand, though @nestjs/schedule does not see the wrapped method', async () => {
    const [Instrumented, prefix] = [wrapped(false), `${freshKey('schedule')}:`];
    const other = await startJobs([Instrumented, Wrappable], prefix);
    const error = await rejection((await startJobs([Instrumented], prefix)).app.get(Instrumented).run());
    expect(error.message).toMatch(/^Wrappable\.run: .*the scheduler does not have a cron job "\* \* \* \* \* \*"/);
    // Another object of the class has its job.
    await other.app.get(Instrumented).run();
    expect(firesOf([other], 'Instrumented.run')).not.toEqual([]);
  });
});

describe('a cron job that is added to the SchedulerRegistry', () => {
  @Injectable()
  class Reports implements OnModuleInit {
    /** Like a value of a ConfigService. */
    static readonly expression: string = SECONDLY;

    constructor(
      readonly fires: Fires,
      private readonly scheduler: SchedulerRegistry,
    ) {}

    onModuleInit(): void {
      const atOnce = new CronJob(Reports.expression, () => this.sync());
      const later = new CronJob(Reports.expression, async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        await this.awaited();
      });
      const jobs = { atOnce, later, other: new CronJob('30 30 3 3 3 *', () => this.sync()) };
      for (const [name, job] of Object.entries(jobs)) {
        this.scheduler.addCronJob(name, job);
        job.start();
      }
    }

    @Locked('sync', FIRE)
    async sync(): Promise<void> {
      await this.fires.note('sync', 'Reports.sync');
    }

    @Locked('awaited', FIRE)
    async awaited(): Promise<void> {
      await this.fires.note('awaited', 'Reports.awaited');
    }

    @Locked('late', FIRE)
    async late(): Promise<void> {
      await this.fires.note('late', 'Reports.late');
    }

    @Locked('once', FIRE)
    async once(): Promise<void> {
      await this.fires.note('once', 'Reports.once');
    }

    @Locked('unknown', FIRE)
    async unknown(): Promise<void> {}
  }

  // All jobs of these apps fire in the same seconds, so that the tests wait for them together.
  let apps: readonly JobsApp[];
  let date: Date;

  beforeAll(async () => {
    apps = await startTwoJobs(Reports);
    date = new Date(Date.now() + 2_000);
    for (const { app, registry } of apps) {
      const once = new CronJob(date, () => app.get(Reports).once());
      registry.addCronJob('once', once);
      once.start();
      const add = (cronTime: string): void => {
        const onTick = () => app.get(Reports).late();
        registry.addCronJob(
          'late',
          CronJob.from({ cronTime, onTick, start: true, timeZone: 'UTC', waitForCompletion: true }),
        );
      };
      add(YEARLY);
      expect(registry.getCronJob('late').cronTime.source).toBe(YEARLY);
      registry.deleteCronJob('late');
      add(SECONDLY);
    }
  });
  afterAll(closeAll);

  it.each([
    ['as a module starts', 'sync'],
    ['as a module starts, with a tick that awaits', 'awaited'],
    ['after the start, to replace a deleted one', 'late'],
  ])('runs once per fire of its current schedule when it is added %s', async (_when, name) => {
    await expectOncePerSecond(apps, `Reports.${name}`);
  });

  it('runs once when it is for a date', async () => {
    const skipped = () => apps.flatMap((app) => app.skipped).filter((one) => one === 'once claimed');
    await eventually(() => firesOf(apps, 'Reports.once').length + skipped().length === 2);
    expect(firesOf(apps, 'Reports.once')).toEqual([date.getTime()]);
  });

  it('has a fire only in its own ticks: a call by hand rejects with what to write', async () => {
    const error = await rejection(apps[0]!.app.get(Reports).unknown());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      "Reports.unknown: `oncePer: 'fire'`, but the method has no @Cron, @Interval or @Timeout of @nestjs/schedule, and no " +
        'cron job of the SchedulerRegistry has called it. Put one on it, or name the fire by a function ' +
        '(`oncePer: () => date`), or claim slots of time with `oncePer: <milliseconds>`.',
    );
  });
});
