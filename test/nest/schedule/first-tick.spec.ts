import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Locked } from '../../../lib/index.js';
import { freshKey, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closePlaces } from '../support/places.js';

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
