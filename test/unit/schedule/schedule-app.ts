import { type INestApplicationContext, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { FireFinder } from '../../../lib/schedule/fire-finder.js';
import { followJobs } from '../../../lib/schedule/scheduler.js';

const open = new Set<INestApplicationContext>();

export async function closeApps(): Promise<void> {
  await Promise.all([...open].map((app) => app.close()));
  open.clear();
}

export type App = Awaited<ReturnType<typeof startApp>>;

/** An application with the jobs of a class. Each finder that it makes represents a separate instance. */
export async function startApp(jobs: Type, imports = [ScheduleModule.forRoot()]) {
  const app = await Test.createTestingModule({ imports, providers: [jobs] }).compile();
  open.add(app);
  followJobs(app.get(ModulesContainer));
  const methodOf = (name: string) => (jobs.prototype as Record<string, Function>)[name]!;
  const newFinder = (now: () => number) => new FireFinder(app.get(ModulesContainer), now);
  return {
    app,
    newFinder,
    methodOf,
    registry: () => app.get(SchedulerRegistry),
    /** What a call at this time claims, asked by an instance that was just started. */
    claimAt: (name: string, time: string | number) =>
      newFinder(() => new Date(time).getTime()).claimOf(methodOf(name), `${jobs.name}.${name}`),
  };
}

/** The time of the fire, as ISO 8601 in UTC. */
export const fireAt = (app: App, name: string, time: string | number): string =>
  new Date(app.claimAt(name, time).ms).toISOString().replace('.000Z', 'Z');
