import { type TestingModule } from '@nestjs/testing';
import { LockLostError, RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

const HOUR = 3_600_000;

let clock: ManualClock;
let server: MemoryLockServer;

beforeEach(() => {
  clock = new ManualClock();
  server = new MemoryLockServer({ clock });
});

/** A shutdown waits for the holders, up to `drainMs` of this clock. */
afterEach(async () => {
  const closing = closeAll();
  await clock.advance(60_000);
  await closing;
});

const start = (): Promise<TestingModule> => startModule({ imports: [RedisLockTestingModule.forRoot({ server })] });

const startLocks = async (): Promise<RedisLockService> => (await start()).get(RedisLockService);

describe('with a ManualClock', () => {
  it('a process that was blocked for too long finds its lock lost', async () => {
    const [locks, others] = [await startLocks(), await startLocks()];
    const lock = await locks.acquire('a');
    const told = lock.signal;
    clock.jump(31_000);
    expect([lock.held, (await others.tryAcquire('a'))?.held]).toEqual([false, true]);
    await clock.advance(0);
    expect(told.reason).toBeInstanceOf(LockLostError);
  });

  it('a wall clock that is set back loses no lock, and blocks others for at most one more lease', async () => {
    const [locks, others] = [await startLocks(), await startLocks()];
    const lock = await locks.acquire('a');
    const mute = await locks.acquire('b', { renew: false });
    clock.wallOffsetMs -= HOUR;
    await clock.advance(30_000);
    expect([lock.held, mute.held]).toEqual([true, false]);
    expect(await others.tryAcquire('b')).toBeNull();
    await clock.advance(30_000);
    expect((await others.tryAcquire('b'))?.held).toBe(true);
  });

  it('an app does not wait for its holders by default, so that a test that leaves one does not hang', async () => {
    const app = await start();
    const lock = await app.get(RedisLockService).acquire('a');
    await app.close();
    expect(lock.signal.reason).toMatchObject({ reason: 'shutdown' });
    expect(await (await startLocks()).isLocked('a')).toBe(false);
  });

  it('an app that holds nothing closes at once, and leaves no timer', async () => {
    const app = await start();
    await app.get(RedisLockService).withLock('a', () => undefined);
    await app.close();
    expect(clock.timers).toBe(0);
  });
});
