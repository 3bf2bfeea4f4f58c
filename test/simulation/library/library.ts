import { type RedisOptions } from 'ioredis';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { type LockError, type LockLostError, type LockStoreError } from '../../../lib/core/lock.errors.js';
import { type openStore } from '../../../lib/redis/open-store.js';
import { type createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type RedisLockService } from '../../../lib/redis-lock.service.js';
import { type resolveLockOptions } from '../../../lib/core/lock.options.js';
import { type enterLock } from '../../../lib/core/reentry/enter-lock.js';
import { type runWithLock } from '../../../lib/core/reentry/run.js';
import { SimRedis } from '../client/sim-redis.js';
import { type Network } from '../network/network.js';
import { createLoader } from './typescript-loader.mjs';

/** A bug that is planted in the source of the library. */
export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  /** A text that the file contains once. */
  readonly find: string;
  readonly replace: string;
}

/** The classes of the library that the simulation runs, on simulated clients. */
export interface Library {
  readonly Locker: typeof Locker;
  readonly RedisLockService: typeof RedisLockService;
  readonly openStore: typeof openStore;
  readonly resolveLockOptions: typeof resolveLockOptions;
  readonly enterLock: typeof enterLock;
  readonly runWithLock: typeof runWithLock;
  readonly scripts: ReturnType<typeof createLockScripts>;
  readonly LockError: typeof LockError;
  readonly LockLostError: typeof LockLostError;
  readonly LockStoreError: typeof LockStoreError;
  /** Where the clients connect that the library makes from now on. */
  network: Network | null;
}

/** The service is made without Nest: its decorators do nothing. */
const NEST = { Injectable: () => () => undefined, Inject: () => () => undefined };

/** Loads the library from its source, with a bug if one is given. */
export function loadLibrary(bug?: PlantedBug): Library {
  const ports: Pick<Library, 'network'> = { network: null };
  class Redis extends SimRedis {
    constructor(options: RedisOptions) {
      super(ports.network!, options);
    }
  }
  const packages = { ioredis: { Redis }, '@nestjs/common': NEST };
  const load = createLoader({ changes: bug ? [bug] : [], packages });
  const { createLockScripts } = load('lib/redis/scripts/lock-scripts.ts');
  const { LockError, LockLostError, LockStoreError } = load('lib/core/lock.errors.ts');
  return Object.assign(ports, {
    Locker: load('lib/core/acquire/locker.ts').Locker,
    RedisLockService: load('lib/redis-lock.service.ts').RedisLockService,
    openStore: load('lib/redis/open-store.ts').openStore,
    resolveLockOptions: load('lib/core/lock.options.ts').resolveLockOptions,
    enterLock: load('lib/core/reentry/enter-lock.ts').enterLock,
    runWithLock: load('lib/core/reentry/run.ts').runWithLock,
    scripts: createLockScripts(),
    LockError,
    LockLostError,
    LockStoreError,
  });
}
