import { setTimeout as sleep } from 'node:timers/promises';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { LOCK_CLOCK, LOCKER } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp, startModule } from '../../support/apps/lock-app.js';
import { SleepyClock } from '../../support/core/stopped-clock.js';
import { enqueue, untilWaiting } from '../../support/waiting/waiters.js';
import { hashOf } from '../../support/redis/records.js';

afterEach(closeAll);

describe('a machine that sleeps while it waits', () => {
  it('does not trust a grant that came meanwhile', async () => {
    const { admin, url } = await ownRedis();
    const [proxy, clock, key] = [await proxyTo(url), new SleepyClock(), freshKey()];
    const [holder, next] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const lockModule = RedisLockModule.forRoot({ connection: proxy.url, drainMs: 100 });
    const sleeper = await startModule({ imports: [lockModule] }, (builder) =>
      builder.overrideProvider(LOCK_CLOCK).useValue(clock),
    );
    const locks = sleeper.get(RedisLockService);
    // Behind a slow network, a subscription would come too late for the message.
    await eventually(async () => (await admin.pubsub('CHANNELS', '*')).length === 3, { message: 'Not all listen' });
    const held = await holder.locks.acquire(key);
    // Once it has heard that it waits, it can judge what is pushed to it.
    const waiting = new Promise((resolve) => locks.events.on('waiting', resolve));
    const asleep = locks.acquire(key, { leaseMs: 6_000, waitMs: 50_000 });
    await waiting;
    clock.stop();
    const locker = sleeper.get<Locker>(LOCKER);
    const hear = locker.onWakeUp.bind(locker);
    const woken = new Promise<void>((resolve) => {
      locker.onWakeUp = (...message) => {
        clock.goOn();
        hear(...message);
        resolve();
      };
    });
    // What is sent to it now arrives when its place in the queue has ended, and wakes it.
    proxy.delayMs = 8_000;
    const { lock: behind } = await enqueue(next, key, { leaseMs: 3_000, waitMs: 50_000 });
    // By the clock that stands still the message then comes sooner after the last command than it could have been sent.
    await sleep(1_500);
    await held.release();
    expect(Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('hold:'))).toHaveLength(1);
    const taken = await behind;
    await woken;
    proxy.delayMs = 0;
    // It asks, and is told to wait.
    await untilWaiting(holder, key);
    await taken.release();
    const own = await asleep;
    expect([own.held, own.fencingToken > taken.fencingToken]).toEqual([true, true]);
  }, 60_000);
});

describe('a lock that was handed over', () => {
  it('outlives an extension that is shorter than its lease', async () => {
    const { url } = await ownRedis();
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const { lock } = await enqueue(b, key, { leaseMs: 30_000 });
    await held.release();
    const own = await lock;
    await own.extend(1_000);
    await eventually(() => own.remainingMs > 10_000, { message: 'It was not renewed to its full lease' });
    expect(own.held).toBe(true);
  });
});
