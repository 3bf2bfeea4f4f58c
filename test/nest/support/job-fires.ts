import 'reflect-metadata';
import { Injectable, type Provider } from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey, startApp } from '../../support/apps/lock-app.js';

export const FIRE = { oncePer: 'fire', spreadMs: 0 } as const;
export const YEARLY = '0 0 0 1 1 *';
export const SECONDLY = '* * * * * *';

/** The fires that an instance ran, by job, in milliseconds. */
@Injectable()
export class Fires {
  readonly all: { readonly job: string; readonly fire: number }[] = [];

  constructor(private readonly locks: RedisLockService) {}

  async note(key: string, job: string): Promise<void> {
    const run = await this.locks.lastRun(key, job);
    this.all.push({ job, fire: run!.fire.getTime() });
  }
}

/** Starts an instance of an app with jobs. */
export async function startJobs(providers: readonly Provider[], keyPrefix = `${freshKey('schedule')}:`) {
  const imports = [ScheduleModule.forRoot()];
  const { app, locks } = await startApp({ keyPrefix }, { imports, providers: [Fires, ...providers] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ key, reason }) => skipped.push(`${key} ${reason}`));
  return { app, skipped, fires: app.get(Fires).all, registry: app.get(SchedulerRegistry) };
}

export type JobsApp = Awaited<ReturnType<typeof startJobs>>;

/** Starts two instances of an app with jobs. */
export async function startTwoJobs(...providers: Provider[]): Promise<readonly [JobsApp, JobsApp]> {
  const prefix = `${freshKey('schedule')}:`;
  return Promise.all([startJobs(providers, prefix), startJobs(providers, prefix)]);
}

/** The fires of a job that were run, on any of the instances. */
export const firesOf = (apps: readonly JobsApp[], job: string): number[] =>
  apps.flatMap(({ fires }) => fires.filter((one) => one.job === job).map(({ fire }) => fire));

/** That the job runs in each of some seconds, on one of the instances. */
export async function expectOncePerSecond(apps: readonly JobsApp[], job: string): Promise<void> {
  const before = firesOf(apps, job).length;
  await eventually(() => firesOf(apps, job).length >= before + 3, { timeoutMs: 20_000 });
  const fires = firesOf(apps, job);
  expect(new Set(fires).size).toBe(fires.length);
  // Those of different instances are noted in any order.
  const now = Date.now();
  const latest = fires.filter((fire) => fire > now - 60_000);
  expect(latest.length).toBeGreaterThanOrEqual(3);
  expect(latest.filter((fire) => fire % 1_000 !== 0)).toEqual([]);
}
