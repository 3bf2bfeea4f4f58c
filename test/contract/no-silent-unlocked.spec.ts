import { LockConfigurationError, LockStoreError } from '../../lib/index.js';
import { proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { onEveryStore, ownPlace } from './support/stores.js';
import { itOnRedis, itOnSingle } from '../support/topologies/topology.js';
import { rejection } from '../support/waiting/rejection.js';

const work = jest.fn();

describe('promise 5: no silent unlocked run', () => {
  beforeEach(() => void work.mockClear());
  afterEach(closeAll);
  afterEach(() => expect(work).not.toHaveBeenCalled());

  itOnSingle.each([
    [0, 'refuse'],
    [300, 'refuse'],
    [0, 'blackhole'],
    [300, 'blackhole'],
  ] as const)('rejects with LockStoreError after waitMs when Redis is down (waitMs %i, %s)', async (waitMs, fault) => {
    const proxy = await proxyTo();
    proxy[fault](true);
    const { locks, locker } = await startApp({ connection: proxy.url });
    const error = await rejection(locks.withLock(freshKey(), { waitMs }, work));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
  });

  itOnRedis('rejects at once when the key holds another type in Redis, and leaves it unchanged', async () => {
    const [{ locks }, admin] = [await startApp(), openAdmin()];
    const key = freshKey();
    await onEveryStore((store) => store.set(`lock:${key}`, 'mine', 'EX', 60));
    const error = await rejection(locks.withLock(key, { waitMs: Infinity }, work));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, key });
    expect(error.message).toContain('WRONGTYPE');
    expect(await admin.get(`lock:${key}`)).toBe('mine');
  });

  it.each([
    [{ leaseMs: Number.NaN }, 'leaseMs', 'NaN'],
    [{ waitMs: '30s' }, 'waitMs', '30s'],
    [{ renew: 'no' }, 'renew', 'no'],
    [{ leaseMS: 5_000 }, 'leaseMS', 'leaseMs'],
    [{ ttl: 5_000 }, 'ttl', 'leaseMs'],
  ])('rejects the option %o with LockConfigurationError that names %s and %s', async (options, name, value) => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    const calls = [locks.withLock('bad', options as never, work), locks.acquire('bad', options as never)];
    // What tryAcquire waits is its own affair.
    if (name !== 'waitMs') calls.push(locks.tryAcquire('bad', options as never));
    for (const call of calls) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toContain(name);
      expect(error.message).toContain(value);
    }
    await place.expectNotSent('evalsha');
  });

  it('rejects a withLock whose options follow its work, where they would be ignored', async () => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    let ran = 0;
    const run = () => void (ran += 1);
    const error = await rejection(locks.withLock('bad', run as never, { waitMs: 0 } as never));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      'Expected the work of withLock("bad") to be a function, after the options, got a value of type object after it.',
    );
    expect(ran).toBe(0);
    await place.expectNotSent('evalsha');
  });
});
