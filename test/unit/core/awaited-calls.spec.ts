import { AwaitedCalls } from '../../../lib/core/awaited-calls.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../lib/redis-lock.service.js';
import { startLocker } from '../../support/core/core-parts.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { granted, released } from '../../support/core/fake-store.js';

describe('calls that are awaited', () => {
  it('keep the process alive for each step of an iteration, and not in between', async () => {
    const clock = new FakeClock();
    let isClosed = false;
    async function* numbers(): AsyncGenerator<number> {
      try {
        for (let i = 0; ; i += 1) {
          await settled();
          expect(clock.keptAlive).toBe(1);
          yield i;
        }
      } finally {
        isClosed = true;
      }
    }
    const seen: number[] = [];
    for await (const i of new AwaitedCalls(clock).keepAliveEach(numbers())) {
      expect(clock.keptAlive).toBe(0);
      if (seen.push(i) === 3) break;
    }
    expect([seen, isClosed, clock.keptAlive]).toEqual([[0, 1, 2], true, 0]);
  });
});

describe('a lock', () => {
  it('keeps the process alive while it is acquired, extended, downgraded and released, and never while it is held', async () => {
    const { clock, store, locker } = startLocker();
    const locks = new RedisLockService(locker, store, resolveModuleOptions({}));
    store.onAcquire = store.onRenew = store.onRelease = null;
    const during = async <T>(call: Promise<T>, answer: () => void): Promise<T> => {
      await settled();
      expect(clock.keptAlive).toBe(1);
      answer();
      const value = await call;
      expect(clock.keptAlive).toBe(0);
      return value;
    };
    const lock = await during(locks.acquire('k'), () => store.acquires[0]!.reply(granted(30_000, 100)));
    await clock.advance(10_000);
    expect([store.renews.length, clock.keptAlive]).toEqual([1, 0]);
    await during(lock.extend(40_000), () => store.renews[1]!.reply([{ outcome: 'renewed', remainingMs: 40_000 }]));
    await during(lock.downgrade(), () => store.renews[2]!.reply([{ outcome: 'renewed', remainingMs: 40_000 }]));
    await during(lock.release(), () => store.releases[0]!.reply(released()));
  });
});
