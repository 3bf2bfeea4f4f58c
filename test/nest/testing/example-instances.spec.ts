import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { Locked } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';

@Injectable()
class Reports {
  @Cron('0 12 * * *', { timeZone: 'UTC' })
  @Locked('noon-report', { oncePer: 'fire' })
  async noon(): Promise<string | undefined> {
    return 'written';
  }
}

it('the noon report is written by one instance a day', async () => {
  const clock = new ManualClock(new Date('2030-05-01T12:00:00Z'));
  const server = new MemoryLockServer({ clock });
  const start = async () => {
    const imports = [RedisLockTestingModule.forRoot({ server }), ScheduleModule.forRoot()];
    return (await Test.createTestingModule({ imports, providers: [Reports] }).compile()).init();
  };
  const apps = [await start(), await start()];
  const fire = async () => {
    const runs = Promise.all(apps.map((app) => app.get(Reports).noon()));
    // Each instance claims the fire after a random delay of up to `spreadMs`.
    await clock.advance(50);
    return (await runs).filter((result) => result === 'written').length;
  };
  expect([await fire(), await fire()]).toEqual([1, 0]);
  await clock.advance(24 * 3_600_000);
  expect(await fire()).toBe(1);
  for (const app of apps) await app.close();
});
