import 'reflect-metadata';
import { CronJob } from 'cron';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown, type Provider } from '@nestjs/common';
import { Interval, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { LockShutdownError, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { LAST_RELEASES_MS } from '../../../lib/core/timing.js';
import { RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp, startModule } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { startManual } from '../support/manual-app.js';

afterEach(closeAll);

/** What happens first when an app closes during locked work: the work ends, or its dependencies close. */
async function orderOfClosing(providers: Provider[] = []): Promise<string[]> {
  const log: string[] = [];
  @Injectable()
  class Database implements OnApplicationShutdown {
    onApplicationShutdown(): void {
      log.push('database closed');
    }
  }
  const { app, locks } = await startApp({ drainMs: 20_000 }, { providers: [Database, ...providers] });
  const work = gate();
  const running = locks.withLock(freshKey(), async () => {
    await work.opened;
    log.push('work done');
  });
  await eventually(() => locks.activity.held === 1);
  const closed = app.close();
  expect(await rejection(locks.acquire(freshKey()))).toBeInstanceOf(LockShutdownError);
  work.open();
  await Promise.all([running, closed]);
  return log;
}

describe('closing the app', () => {
  it('twice does nothing the second time', async () => {
    const { app } = await startApp();
    await app.close();
    await app.close();
  });

  it('refuses new locks, and rejects waiting calls with LockShutdownError', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = rejection(b.locks.acquire(key));
    await untilWaiting(a, key);
    await b.app.close();
    expect(await waiting).toBeInstanceOf(LockShutdownError);
    await expect(b.locks.acquire(freshKey())).rejects.toBeInstanceOf(LockShutdownError);
    expect((await a.locks.inspect(key)).waiters).toBe(0);
    await held.release();
  });

  it('waits for the holders before any onApplicationShutdown, so that their resources are still open', async () => {
    expect(await orderOfClosing()).toEqual(['work done', 'database closed']);
  });
});

const modules = [
  () => RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 20_000 }),
  () => ScheduleModule.forRoot(),
];

describe('the jobs of @nestjs/schedule', () => {
  @Injectable()
  class Jobs {
    fires = 0;

    @Interval(5)
    count(): void {
      this.fires += 1;
    }
  }

  it.each([
    ['before', modules],
    ['after', modules.toReversed()],
  ])(
    'do not fire while the app waits for holders, with the lock module imported %s the schedule module',
    async (_order, imports) => {
      const metadata = { imports: imports.map((make) => make()), providers: [Jobs] };
      const app = await startModule(metadata);
      const jobs = app.get(Jobs);
      await eventually(() => jobs.fires > 2);
      const lock = await app.get(RedisLockService).acquire(freshKey());
      const closed = app.close();
      // Twenty periods without a fire.
      await eventually(async () => {
        const before = jobs.fires;
        await sleep(100);
        return jobs.fires === before;
      });
      expect(lock.held).toBe(true);
      await lock.release();
      await closed;
    },
  );
});

describe('a scheduler', () => {
  it('that cannot be stopped does not prevent the shutdown from waiting for the holders', async () => {
    const scheduler = { provide: SchedulerRegistry, useValue: { addCronJob: () => undefined } };
    expect(await orderOfClosing([scheduler])).toEqual(['work done', 'database closed']);
  });

  it('completes each of its jobs once', async () => {
    let completed = 0;
    const app = await startModule({ imports: modules.map((make) => make()) });
    const onComplete = (): void => void (completed += 1);
    const job = CronJob.from({ cronTime: '0 0 1 1 *', onTick: () => undefined, onComplete, start: true });
    app.get(SchedulerRegistry).addCronJob('by hand', job as never);
    await app.close();
    expect(completed).toBe(1);
  });
});

it('an app that was closed before it was started opens nothing', async () => {
  const module = await Test.createTestingModule({
    imports: [RedisLockModule.forRoot({ connection: redisUrl() })],
  }).compile();
  await module.close();
  const connected = jest.spyOn(RedisLockStore.prototype, 'open');
  await module.init();
  expect(connected).not.toHaveBeenCalled();
  connected.mockRestore();
});

describe('closing the app while Redis is away', () => {
  @Injectable()
  class Nothing {}
  const start = () => startManual(Nothing, { drainMs: 20_000 });

  it('ends within drainMs, even with locks that could not be released and a running call', async () => {
    const { app, server, clock, locks } = await start();
    const [lock] = [await locks.acquire(freshKey()), await locks.acquire(freshKey())];
    server.stop();
    void lock.release();
    const acquiring = rejection(locks.acquire(freshKey()));
    const closing = app.close();
    await clock.advance(20_000 + LAST_RELEASES_MS);
    await closing;
    expect(await acquiring).toBeInstanceOf(LockShutdownError);
  });

  it('ends at once when nothing is held', async () => {
    const { app, server } = await start();
    server.stop();
    await app.close();
  });
});
