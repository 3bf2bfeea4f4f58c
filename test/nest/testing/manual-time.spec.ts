import { Injectable } from '@nestjs/common';
import { type TestingModule } from '@nestjs/testing';
import { currentLock, Locked, LockLostError, RedisLockService } from '../../../lib/index.js';
import {
  ManualClock,
  MemoryLockServer,
  RedisLockTestingModule,
  type RedisLockTestingOptions,
} from '../../../lib/testing/index.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

const HOUR = 3_600_000;

@Injectable()
class Orders {
  until: Promise<void> = Promise.resolve();

  @Locked('order:<0>', { maxHoldMs: HOUR })
  async charge(id: string): Promise<string> {
    currentLock().signal.throwIfAborted();
    await this.until;
    return id;
  }
}

let clock: ManualClock;
let server: MemoryLockServer;

beforeEach(() => {
  clock = new ManualClock();
  server = new MemoryLockServer({ clock });
});

/** Whatever is held is waited for, up to `drainMs` of this clock. */
afterEach(async () => {
  const closing = closeAll();
  await clock.advance(60_000);
  await closing;
});

const start = (options: RedisLockTestingOptions = {}): Promise<TestingModule> =>
  startModule({ imports: [RedisLockTestingModule.forRoot({ server, ...options })], providers: [Orders] });

const startLocks = async (): Promise<RedisLockService> => (await start()).get(RedisLockService);

describe('with a ManualClock', () => {
  it('work that goes on for too long loses its lock at maxHoldMs', async () => {
    const app = await start();
    const until = gate();
    app.get(Orders).until = until.opened;
    const charging = rejection(app.get(Orders).charge('1'));
    await clock.advance(HOUR - 1);
    expect(app.get(RedisLockService).activity.held).toBe(1);
    await clock.advance(1);
    expect(app.get(RedisLockService).activity.held).toBe(0);
    until.open();
    expect(await charging).toMatchObject({ reason: 'max-hold', result: '1' });
  });

  it('a key stays taken for holdAtLeastMs even when the work ends sooner', async () => {
    const locks = await startLocks();
    await locks.withLock('a', { holdAtLeastMs: 60_000 }, () => undefined);
    await clock.advance(59_000);
    expect(await locks.tryAcquire('a')).toBeNull();
    await clock.advance(1_000);
    expect((await locks.tryAcquire('a'))?.held).toBe(true);
  });

  it('a process that was blocked for too long finds its lock lost', async () => {
    const [locks, others] = [await startLocks(), await startLocks()];
    const lock = await locks.acquire('a');
    const told = lock.signal;
    clock.jump(31_000);
    expect([lock.held, (await others.tryAcquire('a'))?.held]).toEqual([false, true]);
    await clock.advance(0);
    expect(told.reason).toBeInstanceOf(LockLostError);
  });

  it('a machine that slept no longer trusts its lease, and renews', async () => {
    const locks = await startLocks();
    const lock = await locks.acquire('a');
    clock.wallOffsetMs += 60_000;
    expect(lock.held).toBe(false);
    await clock.advance(20_000);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('a wall clock that is set back loses no lock, and blocks others for one lease more at most', async () => {
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

  it('an app that closes renews for its holders, and waits for them up to drainMs of that clock', async () => {
    const app = await start({ drainMs: 100_000 });
    const lock = await app.get(RedisLockService).acquire('a');
    let closed = false;
    const closing = app.close().then(() => (closed = true));
    await clock.advance(99_999);
    expect([closed, lock.held]).toEqual([false, true]);
    await clock.advance(2_000);
    await closing;
    expect(lock.signal.reason).toMatchObject({ reason: 'shutdown' });
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
    await app.get(Orders).charge('1');
    await app.close();
    expect(clock.timers).toBe(0);
  });
});
