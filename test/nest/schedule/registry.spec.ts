import 'reflect-metadata';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CronJob } from 'cron';
import { jest } from '@jest/globals';
import { LockConfigurationError, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll } from '../../support/apps/lock-app.js';
import {
  expectOncePerSecond,
  FIRE,
  Fires,
  firesOf,
  type JobsApp,
  SECONDLY,
  startTwoJobs,
  YEARLY,
} from '../support/job-fires.js';

describe('a cron job that is added to the SchedulerRegistry', () => {
  @Injectable()
  class Reports implements OnModuleInit {
    /** As a ConfigService gives it. */
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
    ['after the start, in place of a deleted one', 'late'],
  ])('runs once per fire of its current schedule when it is added %s', async (_when, name) => {
    await expectOncePerSecond(apps, `Reports.${name}`);
  });

  it('runs once when it is for a date', async () => {
    const skipped = () => apps.flatMap((app) => app.skipped).filter((one) => one === 'once claimed');
    await eventually(() => firesOf(apps, 'Reports.once').length + skipped().length === 2);
    expect(firesOf(apps, 'Reports.once')).toEqual([date.getTime()]);
  });

  it('is known only in its own ticks: a call by hand rejects with what to write', async () => {
    const error = await rejection(apps[0]!.app.get(Reports).unknown());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      "Reports.unknown: `oncePer: 'fire'`, but the method has no @Cron, @Interval or @Timeout of @nestjs/schedule, and no " +
        'cron job of the SchedulerRegistry has called it. Put one on it, or name the fire by a function ' +
        '(`oncePer: () => date`), or claim slots of time with `oncePer: <milliseconds>`.',
    );
  });

  it('does not disturb a spy on the registry', async () => {
    const { registry } = apps[0]!;
    const added = jest.spyOn(registry, 'addCronJob');
    const ticks: unknown[] = [];
    const job = new CronJob<null>(SECONDLY, function (this: unknown) {
      ticks.push(this);
    });
    registry.addCronJob('plain', job);
    expect(added).toHaveBeenCalledWith('plain', job);
    expect(() => registry.addCronJob('plain', job)).toThrow('plain');
    job.start();
    await eventually(() => ticks.length > 0);
    expect(ticks[0]).toBe(job);
  });
});
