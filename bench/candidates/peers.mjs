// Other lock packages, each used as its own documentation does it. They come from bench/package.json.
import { Logger } from '@nestjs/common';
import { Redlock as RedisKit } from '@redis-kit/lock';
import { Redlock as Sesamecare } from '@sesamecare-oss/redlock';
import { Redis } from 'ioredis';
import murlock from 'murlock';
import { AsyncStorageManager } from 'murlock/dist/als/als-manager.js';
import { AsyncStorageService } from 'murlock/dist/als/als.service.js';
import { createClient } from 'redis';
import { Mutex } from 'redis-semaphore';
import Redlock5 from 'redlock';
import Redlock4 from 'redlock4';
import { IoredisAdapter, createLock } from 'redlock-universal';
import { lock as simpleLock } from 'simple-redis-mutex';

// murlock logs each acquire, whatever its `logLevel`.
Logger.overrideLogger(false);

const FOR_EVER = 1e9;
const ioredis = ({ port }) => new Redis(port, '127.0.0.1');

async function nodeRedis({ port }) {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on('error', () => {});
  return client.connect();
}

/** The retries of the redlock family: its defaults, or for ever with this delay. */
const retries = (retryMs) => (retryMs ? { retryCount: -1, retryDelay: retryMs, retryJitter: 0 } : {});

/** A lock that is renewed only while a function runs. */
async function renewed(use) {
  const held = {};
  const granted = new Promise((resolve, reject) => {
    const work = (signal) => new Promise((end) => resolve(Object.assign(held, { signal, end })));
    held.ended = use(work);
    held.ended.catch(reject);
  });
  await granted;
  return held;
}

const whileRenewed = {
  isLost: ({ signal }) => signal.aborted,
  letGo({ end, ended }) {
    end();
    return ended;
  },
};

async function redlock4({ leaseMs, retryMs, ...server }) {
  const redis = ioredis(server);
  const redlock = new Redlock4([redis], retries(retryMs));
  return { acquire: (key) => redlock.lock(key, leaseMs), release: (lock) => lock.unlock(), close: () => redis.quit() };
}

const redlockOf =
  (Redlock) =>
  async ({ leaseMs, retryMs, ...server }) => {
    const redis = ioredis(server);
    const redlock = new Redlock([redis], retries(retryMs));
    return {
      acquire: (key) => redlock.acquire([key], leaseMs),
      release: (lock) => lock.release(),
      hold: (key) => renewed((work) => redlock.using([key], leaseMs, work)),
      ...whileRenewed,
      close: () => redis.quit(),
    };
  };

async function redisSemaphore({ leaseMs, retryMs, ...server }) {
  const redis = ioredis(server);
  const options = { lockTimeout: leaseMs, ...(retryMs && { retryInterval: retryMs, acquireTimeout: FOR_EVER }) };
  return {
    async acquire(key) {
      const mutex = new Mutex(redis, key, options);
      await mutex.acquire();
      return mutex;
    },
    release: (mutex) => mutex.release(),
    isLost: (mutex) => !mutex.isAcquired,
    close: () => redis.quit(),
  };
}

async function redlockUniversal({ leaseMs, retryMs, isLean, ...server }) {
  const redis = ioredis(server);
  const patience = retryMs && { retryAttempts: FOR_EVER, retryDelay: retryMs };
  const options = {
    adapter: new IoredisAdapter(redis),
    ttl: leaseMs,
    ...patience,
    ...(isLean && { performance: 'lean' }),
  };
  return {
    async acquire(key) {
      const lock = createLock({ ...options, key });
      return { lock, handle: await lock.acquire() };
    },
    release: ({ lock, handle }) => lock.release(handle),
    hold: (key) => renewed((work) => createLock({ ...options, key }).using(work)),
    ...whileRenewed,
    close: () => redis.quit(),
  };
}

async function simpleRedisMutex({ leaseMs, ...server }) {
  const client = await nodeRedis(server);
  return {
    acquire: (key) => simpleLock(client, key, { timeout: leaseMs }),
    release: (release) => release(),
    close: () => client.destroy(),
  };
}

async function murLock({ leaseMs, retryMs, port }) {
  const patience = retryMs ? { wait: () => retryMs, maxAttempts: FOR_EVER } : { wait: 1_000, maxAttempts: 3 };
  const redisOptions = { url: `redis://127.0.0.1:${port}` };
  const storage = new AsyncStorageService(new AsyncStorageManager());
  const service = new murlock.MurLockService({ redisOptions, logLevel: 'none', ...patience }, storage);
  await service.onModuleInit();
  return {
    acquire: (key) =>
      new Promise((granted, failed) => {
        const work = () => new Promise((end) => granted({ end, released }));
        const released = storage.runWithNewContext(() => service.runWithLock(key, leaseMs, work));
        released.catch(failed);
      }),
    release({ end, released }) {
      end();
      return released;
    },
    close: () => service.onApplicationShutdown(),
  };
}

async function redisKit({ leaseMs, retryMs, ...server }) {
  const client = await nodeRedis(server);
  const patience = retryMs && { maxRetryAttempts: FOR_EVER, retryDelayMs: retryMs, retryJitterMs: 0 };
  const redlock = new RedisKit([client], patience);
  return {
    async acquire(key) {
      const lock = await redlock.acquire(key, leaseMs);
      if (!lock) throw new Error('busy');
      return lock;
    },
    async hold(key) {
      const lock = await redlock.acquire(key, leaseMs);
      lock.startAutoExtension();
      return lock;
    },
    release: (lock) => lock.release(),
    close: () => client.destroy(),
  };
}

/** What each candidate is called, the package that it comes from, and how it is opened. */
export const PEERS = {
  'redlock 4': { module: 'redlock4', open: redlock4 },
  'redlock 5': { module: 'redlock', open: redlockOf(Redlock5) },
  '@sesamecare-oss/redlock': { module: '@sesamecare-oss/redlock', open: redlockOf(Sesamecare) },
  'redis-semaphore': { module: 'redis-semaphore', open: redisSemaphore },
  'redlock-universal': { module: 'redlock-universal', open: redlockUniversal },
  'redlock-universal, lean': { module: 'redlock-universal', open: (o) => redlockUniversal({ ...o, isLean: true }) },
  'simple-redis-mutex': { module: 'simple-redis-mutex', open: simpleRedisMutex },
  murlock: { module: 'murlock', open: murLock },
  '@redis-kit/lock': { module: '@redis-kit/lock', open: redisKit },
};
