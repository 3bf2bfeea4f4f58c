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

  /** As `changed`, but that nobody changes it. */
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

/** The jobs that were added without a name, in the order in which they were declared. */
const unnamed = ({ registry }: JobsApp): CronJob[] =>
  [...registry.getCronJobs()].filter(([name]) => name !== 'named').map(([, job]) => job);

afterEach(closeAll);

describe('a @Cron job whose time is changed while the app runs', () => {
  it.each([
    ['without a name', 'changed', (app: JobsApp) => unnamed(app)[0]!],
    ['with a name', 'named', (app: JobsApp) => app.registry.getCronJob('named')],
  ] as const)('%s runs once per fire of the new time, on all instances', async (_which, name, jobOf) => {
    const apps = await startTwoJobs(Declared);
    // It was run once by the former time, which is remembered.
    for (const { app } of apps) await app.get(Declared)[name]();
    expect(firesOf(apps, `Declared.${name}`)).toHaveLength(1);
    for (const app of apps) jobOf(app).setTime(new CronTime(SECONDLY));
    await expectOncePerSecond(apps, `Declared.${name}`);
    for (const app of apps) void jobOf(app).stop();
    // A call by hand belongs to the latest fire of that time, too.
    const calledAt = Date.now();
    await apps[0].app.get(Declared)[name]();
    const { fire } = (await apps[0].app.get(RedisLockService).lastRun(name))!;
    expect(fire.getTime()).toBeGreaterThan(calledAt - 1_000);
  });

  it('runs when it has no name and was never called before', async () => {
    const apps = await startTwoJobs(Declared);
    for (const app of apps) unnamed(app)[0]!.setTime(new CronTime(SECONDLY));
    await expectOncePerSecond(apps, 'Declared.changed');
  });

  it('is not mistaken for another one that was declared with the same time', async () => {
    const apps = await startTwoJobs(Declared);
    for (const app of apps) unnamed(app)[0]!.setTime(new CronTime(SECONDLY));
    await expectOncePerSecond(apps, 'Declared.changed');
    for (const { app } of apps) await app.get(Declared).kept();
    const year = new Date().getFullYear();
    expect(firesOf(apps, 'Declared.kept')).toEqual([new Date(year, 0, 1).getTime()]);
  });
});

describe('a @Cron job whose method is wrapped on its instance', () => {
  it('runs once per fire when a spy replaces the method after the start', async () => {
    const apps = await startTwoJobs(Declared);
    const spies = apps.map(({ app }) => jest.spyOn(app.get(Declared), 'wrapped'));
    await expectOncePerSecond(apps, 'Declared.wrapped');
    for (const { app } of apps) await app.get(Declared).wrapped();
    expect(spies.map((spy) => spy.mock.calls.length)).toEqual([1, 1]);
  });

  /** As instrumentation wraps a method: when its object is made. */
  const wrapped = (copiesMetadata: boolean) =>
    class Declared extends Wrappable {
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

  @Injectable()
  class Wrappable {
    constructor(readonly fires: Fires) {}

    @Cron(SECONDLY)
    @Locked('instrumented', FIRE)
    async run(): Promise<void> {
      await this.fires.note('instrumented', 'Declared.run');
    }
  }

  it('runs once per fire when the wrapper has the metadata of the method', async () => {
    await expectOncePerSecond(await startTwoJobs(wrapped(true)), 'Declared.run');
  });

  it('runs when it is called by hand, though @nestjs/schedule does not see the wrapped method', async () => {
    const [Instrumented, prefix] = [wrapped(false), `${freshKey('schedule')}:`];
    const other = await startJobs([Instrumented, Wrappable], prefix);
    const error = await rejection((await startJobs([Instrumented], prefix)).app.get(Instrumented).run());
    expect(error.message).toMatch(/^Wrappable\.run: .*the scheduler does not have a cron job "\* \* \* \* \* \*"/);
    // Another object of the class has its job.
    await other.app.get(Instrumented).run();
    expect(firesOf([other], 'Declared.run')).not.toEqual([]);
  });
});
