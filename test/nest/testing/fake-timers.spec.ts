import { Injectable } from '@nestjs/common';
import { type TestingModule } from '@nestjs/testing';
import { Locked, LockWaitTimeoutError, RedisLockService } from '../../../lib/index.js';
import { FakeLockService, ManualClock, RedisLockTestingModule, withFakeLocks } from '../../../lib/testing/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

@Injectable()
class Orders {
  @Locked('order:<0>')
  async charge(id: string): Promise<string> {
    return id;
  }

  @Locked('job', { oncePer: 60_000 })
  async job(): Promise<string | undefined> {
    return 'ran';
  }
}

const start = (clock?: ManualClock): Promise<TestingModule> =>
  startModule({ imports: [RedisLockTestingModule.forRoot({ clock, drainMs: 100 })], providers: [Orders] });

afterEach(async () => {
  jest.useRealTimers();
  await closeAll();
});

describe.each([
  ['before the app starts', true],
  ['after the app has started', false],
])('timers that are faked %s', (_when, isBefore) => {
  const startFaked = async (clock?: ManualClock): Promise<TestingModule> => {
    if (isBefore) jest.useFakeTimers();
    const app = await start(clock);
    if (!isBefore) jest.useFakeTimers();
    return app;
  };

  it.each([
    ['drive the default clock', undefined],
    ['do not affect a ManualClock', new ManualClock()],
  ])('%s: leases end, the watchdog renews, a wait times out', async (_what, clock) => {
    const advance = (ms: number) => clock?.advance(ms) ?? jest.advanceTimersByTimeAsync(ms);
    const locks = (await startFaked(clock)).get(RedisLockService);
    const [renewed, mute] = [await locks.acquire('a'), await locks.acquire('b', { renew: false })];
    const waiting = rejection(locks.acquire('a', { waitMs: 60_000 }));
    await advance(59_999);
    expect([renewed.held, mute.held, locks.activity.waiting]).toEqual([true, false, 1]);
    await advance(1);
    expect(await waiting).toBeInstanceOf(LockWaitTimeoutError);
    await renewed.release();
    expect(locks.activity).toEqual({ held: 0, waiting: 0 });
  });

  it('drive the random delay of a job', async () => {
    const run = (await startFaked()).get(Orders).job();
    await jest.advanceTimersByTimeAsync(50);
    expect(await run).toBe('ran');
  });

  it('do not block calls or fake locks', async () => {
    const app = await startFaked();
    expect(await app.get(Orders).charge('1')).toBe('1');
    const orders = withFakeLocks(new Orders(), new FakeLockService());
    expect([await orders.charge('1'), await orders.job()]).toEqual(['1', 'ran']);
  });

  it('let the app close', async () => {
    const app = await startFaked();
    await app.get(Orders).charge('1');
    await app.close();
    await expect(app.get(Orders).charge('1')).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
  });
});
