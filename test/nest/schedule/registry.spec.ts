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

afterEach(closeAll);

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
  }

  it.each(['sync', 'awaited'])('runs once per fire when it is added as a module starts (%s)', async (name) => {
    await expectOncePerSecond(await startTwoJobs(Reports), `Reports.${name}`);
  });

  it('runs once per fire of its current schedule when it is added after the start, in place of a deleted one', async () => {
    const apps = await startTwoJobs(Reports);
    const add = ({ app, registry }: JobsApp, expression: string): void => {
      const job = new CronJob(
        expression,
        () => app.get(Reports).late(),
        null,
        true,
        'UTC',
        null,
        false,
        null,
        null,
        true,
      );
      registry.addCronJob('late', job);
    };
    for (const app of apps) add(app, YEARLY);
    for (const { registry } of apps) {
      expect(registry.getCronJob('late').cronTime.source).toBe(YEARLY);
      registry.deleteCronJob('late');
    }
    for (const app of apps) add(app, SECONDLY);
    await expectOncePerSecond(apps, 'Reports.late');
  });

  it('runs once when it is for a date', async () => {
    const apps = await startTwoJobs(Reports);
    const date = new Date(Date.now() + 3_000);
    for (const { app, registry } of apps) {
      const job = new CronJob(date, () => app.get(Reports).late());
      registry.addCronJob('once', job);
      job.start();
    }
    await eventually(
      () =>
        firesOf(apps, 'Reports.late').length +
          apps.flatMap(({ skipped }) => skipped).filter((one) => one === 'late claimed').length ===
        2,
    );
    expect(firesOf(apps, 'Reports.late')).toEqual([date.getTime()]);
  });

  it('is known only in its own ticks: a call by hand rejects with what to write', async () => {
    const [{ app, fires }] = await startTwoJobs(Reports);
    const error = await rejection(app.get(Reports).late());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      "Reports.late: `oncePer: 'fire'`, but the method has no @Cron, @Interval or @Timeout of @nestjs/schedule, and no " +
        'cron job of the SchedulerRegistry has called it. Put one on it, or name the fire by a function ' +
        '(`oncePer: () => date`), or claim slots of time with `oncePer: <milliseconds>`.',
    );
    expect(fires.filter(({ job }) => job === 'Reports.late')).toEqual([]);
  });

  it('does not disturb a spy on the registry', async () => {
    const [{ registry }] = await startTwoJobs(Reports);
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
