// Other lock packages, each used as its documentation shows. They come from bench/package.json. Each is loaded only in the
// process that measures it.
const FOR_EVER = 1e9;

async function ioredis({ port }) {
  const { Redis } = await import('ioredis');
  return new Redis(port, '127.0.0.1');
}

async function nodeRedis({ port }) {
  const { createClient } = await import('redis');
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on('error', () => {});
  return client.connect();
}

/** The retries of the redlock family: its defaults, or forever with this delay. */
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
  const { default: Redlock } = await import('redlock4');
  const redis = await ioredis(server);
  const redlock = new Redlock([redis], retries(retryMs));
  return { acquire: (key) => redlock.lock(key, leaseMs), release: (lock) => lock.unlock(), close: () => redis.quit() };
}

const redlockOf =
  (load) =>
  async ({ leaseMs, retryMs, ...server }) => {
    const Redlock = await load();
    const redis = await ioredis(server);
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
  const { Mutex } = await import('redis-semaphore');
  const redis = await ioredis(server);
  // By default, a loss is an unhandled rejection, which ends the process.
  const options = { lockTimeout: leaseMs, onLockLost() {} };
  if (retryMs) Object.assign(options, { retryInterval: retryMs, acquireTimeout: FOR_EVER });
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
  const { IoredisAdapter, createLock } = await import('redlock-universal');
  const redis = await ioredis(server);
  const patience = retryMs && { retryAttempts: FOR_EVER, retryDelay: retryMs };
  const lean = isLean && { performance: 'lean' };
  const options = { adapter: new IoredisAdapter(redis), ttl: leaseMs, ...patience, ...lean };
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

async function simpleRedisMutex({ leaseMs, retryMs, ...server }) {
  const { lock } = await import('simple-redis-mutex');
  const client = await nodeRedis(server);
  const options = { timeout: leaseMs, ...(retryMs && { pollingInterval: retryMs }) };
  return {
    acquire: (key) => lock(client, key, options),
    release: (release) => release(),
    close: () => client.destroy(),
  };
}

async function murLock({ leaseMs, retryMs, port }) {
  const { Logger } = await import('@nestjs/common');
  const { default: murlock } = await import('murlock');
  const { AsyncStorageManager } = await import('murlock/dist/als/als-manager.js');
  const { AsyncStorageService } = await import('murlock/dist/als/als.service.js');
  // It logs each acquire, whatever its `logLevel`.
  Logger.overrideLogger(false);
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
  const { Redlock } = await import('@redis-kit/lock');
  // It writes a line for each lease that it loses.
  console.warn = () => {};
  const client = await nodeRedis(server);
  const patience = retryMs && { maxRetryAttempts: FOR_EVER, retryDelayMs: retryMs, retryJitterMs: 0 };
  const redlock = new Redlock([client], patience);
  const acquire = async (key) => {
    const lock = await redlock.acquire(key, leaseMs);
    if (!lock) throw new Error('busy');
    return lock;
  };
  return {
    acquire,
    async hold(key) {
      const lock = await acquire(key);
      lock.startAutoExtension();
      return lock;
    },
    isLost: (lock) => lock.isExpired,
    release: (lock) => lock.release(),
    close: () => client.destroy(),
  };
}

const load = {
  redlock5: async () => (await import('redlock')).default,
  sesamecare: async () => (await import('@sesamecare-oss/redlock')).Redlock,
};

/** The name of each candidate, and how it is opened. */
export const PEERS = {
  'redlock 4': { open: redlock4 },
  'redlock 5': { open: redlockOf(load.redlock5) },
  '@sesamecare-oss/redlock': { open: redlockOf(load.sesamecare) },
  'redis-semaphore': { open: redisSemaphore },
  'redlock-universal': { open: redlockUniversal },
  'simple-redis-mutex': { open: simpleRedisMutex },
  murlock: { open: murLock },
  '@redis-kit/lock': { open: redisKit },
};
