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

/** That the job has run in some seconds of the last minute, or does so now, each time on one of the instances. */
export async function expectOncePerSecond(apps: readonly JobsApp[], job: string): Promise<void> {
  // Those of different instances are noted in any order.
  const latest = (): number[] => firesOf(apps, job).filter((fire) => fire > Date.now() - 60_000);
  await eventually(() => latest().length >= 3, { timeoutMs: 20_000 });
  const fires = latest();
  expect(new Set(fires).size).toBe(fires.length);
  expect(fires.filter((fire) => fire % 1_000 !== 0)).toEqual([]);
}
