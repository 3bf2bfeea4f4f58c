import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { type CronJob, CronTime } from 'cron';
import { jest } from '@jest/globals';
import { Locked, RedisLockService } from '../../../lib/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import {
  expectOncePerSecond,
  FIRE,
  Fires,
  firesOf,
  type JobsApp,
  SECONDLY,
  startJobs,
  startTwoJobs,
  YEARLY,
} from '../support/job-fires.js';

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

  /** As the others, but that its time stays. */
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

/** As instrumentation wraps a method: when its object is made. */
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

  it('belongs to the latest fire of that time when it is called by hand, too', async () => {
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
