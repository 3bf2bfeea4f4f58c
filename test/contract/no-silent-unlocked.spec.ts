import { jest } from '@jest/globals';
import { LockConfigurationError, LockKeyError, LockStoreError } from '../../lib/index.js';
import { MemoryLockServer } from '../../lib/testing/index.js';
import { ownRedis, proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { onEveryStore, ownPlace } from './support/stores.js';
import { itInMemory, itOnRedis, itOnSingle } from '../support/topologies/topology.js';
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

  itOnSingle('rejects tryAcquire with LockStoreError, rather than null, when Redis is down', async () => {
    const proxy = await proxyTo();
    proxy.refuse(true);
    const { locks } = await startApp({ connection: proxy.url });
    expect(await rejection(locks.tryAcquire(freshKey()))).toMatchObject({ code: 'LOCK_STORE', retryable: true });
  });

  itInMemory('rejects every operator method while the server is stopped, even a list without locks', async () => {
    const server = new MemoryLockServer();
    const { locks } = await startApp({}, {}, server);
    const listed = async (): Promise<void> => {
      for await (const { key } of locks.list()) work(key);
    };
    server.stop();
    for (const answer of [locks.inspect('key'), locks.isLocked('key'), locks.forceRelease('key'), listed()]) {
      expect(await rejection(answer)).toBeInstanceOf(LockStoreError);
    }
  });

  itOnSingle.each([
    ['a wrong password', 'redis://:wrong@'],
    ['no password', 'redis://'],
    ['a user that is unknown', 'redis://nobody:secret@'],
  ])('does not retry with %s', async (_, credentials) => {
    const { port } = await ownRedis(['--requirepass', 'secret']);
    const { locks } = await startApp({ connection: `${credentials}127.0.0.1:${port}` });
    const error = await rejection(Promise.race([locks.withLock(freshKey(), { waitMs: 60_000 }, work), passed(10_000)]));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ retryable: false });
  });

  itOnSingle('does not retry when the user may not run scripts', async () => {
    const { port, admin } = await ownRedis();
    await admin.call('ACL', 'SETUSER', 'reader', 'on', '>secret', '~*', '&*', '+@all', '-evalsha', '-eval');
    const { locks } = await startApp({ connection: `redis://reader:secret@127.0.0.1:${port}` });
    const error = await rejection(Promise.race([locks.withLock(freshKey(), { waitMs: 60_000 }, work), passed(10_000)]));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
  });

  itOnRedis('rejects at once when the key holds another type in Redis, and leaves it unchanged', async () => {
    const [{ locks }, admin] = [await startApp(), openAdmin()];
    const key = freshKey();
    await onEveryStore((store) => store.set(`lock:${key}`, 'mine', 'EX', 60));
    const error = await rejection(Promise.race([locks.withLock(key, { waitMs: 60_000 }, work), passed(10_000)]));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, key });
    expect(error.message).toContain('WRONGTYPE');
    expect(await admin.get(`lock:${key}`)).toBe('mine');
  });

  it.each([
    [{ leaseMs: Number.NaN }, 'leaseMs', 'NaN'],
    [{ leaseMs: '30s' }, 'leaseMs', '30s'],
    [{ leaseMs: -1 }, 'leaseMs', '-1'],
    [{ leaseMs: 0 }, 'leaseMs', '0'],
    [{ leaseMs: 1_000.5 }, 'leaseMs', '1000.5'],
    [{ leaseMs: Infinity }, 'leaseMs', 'Infinity'],
    [{ leaseMs: null }, 'leaseMs', 'null'],
    [{ waitMs: Number.NaN }, 'waitMs', 'NaN'],
    [{ waitMs: '30s' }, 'waitMs', '30s'],
    [{ waitMs: -1 }, 'waitMs', '-1'],
    [{ waitMs: 1.5 }, 'waitMs', '1.5'],
    [{ maxHoldMs: 0 }, 'maxHoldMs', '0'],
    [{ holdAtLeastMs: -1 }, 'holdAtLeastMs', '-1'],
    [{ mode: 'exclusive' }, 'mode', 'exclusive'],
    [{ renew: 'no' }, 'renew', 'no'],
    [{ signal: true }, 'signal', 'boolean'],
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

  it.each([[null], [5_000], ['5s'], [true]])(
    'rejects %p in place of the options, where other libraries take a lease',
    async (options) => {
      const { locks } = await startApp();
      const error = await rejection(locks.withLock(freshKey(), options as never, work));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(await rejection(locks.acquire(freshKey(), options as never))).toBeInstanceOf(LockConfigurationError);
    },
  );

  it.each([
    [{ leaseMs: '30s' }, '`leaseMs`', '30s'],
    [{ waitMs: Number.NaN }, '`waitMs`', 'NaN'],
    [{ drainMs: -1 }, '`drainMs`', '-1'],
    [{ keepMs: 1.5 }, '`keepMs`', '1.5'],
    [{ keyPrefix: '' }, '`keyPrefix`', '""'],
    [{ host: '127.0.0.1' }, '`host`', 'connection'],
  ])('refuses to start with the module option %o', async (options, name, value) => {
    const error = await rejection(startApp({ ...options } as never));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(name);
    expect(error.message).toContain(value);
  });

  itOnRedis('refuses to start with an invalid connection', async () => {
    const error = await rejection(startApp({ connection: 6379 } as never));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`connection`');
    expect(error.message).toContain('6379');
  });

  it.each([[''], [undefined], [null], [7], ['\ud800'], ['x'.repeat(1_025)]])('rejects the key %p', async (key) => {
    const { locks } = await startApp();
    expect(await rejection(locks.withLock(key as string, work))).toBeInstanceOf(LockKeyError);
  });
});

/** A limit that keeps nothing alive. */
function passed(ms: number): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`still not rejected after ${ms} ms`)), ms).unref();
  });
}
