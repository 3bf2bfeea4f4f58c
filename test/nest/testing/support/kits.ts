import { randomUUID } from 'node:crypto';
import { type TestingModule } from '@nestjs/testing';
import {
  type Lock,
  type LockOptions,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../../lib/index.js';
import {
  FakeLockModule,
  FakeLockService,
  MemoryLockServer,
  RedisLockTestingModule,
} from '../../../../lib/testing/index.js';
import { disconnect, proxyTo } from '../../../support/redis/own-redis.js';
import { startModule } from '../../../support/apps/lock-app.js';
import { Work } from './kit-work.js';

/** The options of an app that mean the same on all kits. */
export type KitOptions = Pick<
  RedisLockModuleOptions,
  'leaseMs' | 'waitMs' | 'maxHoldMs' | 'onUnavailable' | 'drainMs' | 'keepMs'
>;

/** An app with locks of one kind, and what a test can have happen to them from outside. */
export interface World {
  readonly app: TestingModule;
  readonly locks: RedisLockService;
  readonly work: Work;
  /** From now on it is held by somebody else. */
  readonly occupy: (key: string, options?: LockOptions) => Promise<void>;
  /** What was occupied is free again. */
  readonly vacate: () => Promise<void>;
  /** From now on Redis is away. */
  readonly cutOff: () => Promise<void>;
}

/** How an app gets its locks. */
export type KitName = 'fake' | 'memory' | 'redis';

async function start(lockModule: Parameters<typeof startModule>[0]['imports']) {
  const app = await startModule({ imports: lockModule ?? [], providers: [Work] });
  return { app, locks: app.get(RedisLockService), work: app.get(Work) };
}

/** Holds locks as another instance does. */
function occupyBy(others: () => Promise<RedisLockService>) {
  const held: Lock[] = [];
  return {
    occupy: async (key: string, options?: LockOptions) => void held.push(await (await others()).acquire(key, options)),
    vacate: async () => void (await Promise.all(held.splice(0).map((lock) => lock.release()))),
  };
}

/** Starts an app of each kind; what it opens is closed by `closeAll`. */
export const KITS: Readonly<Record<KitName, (options: KitOptions) => Promise<World>>> = {
  async fake({ keepMs: _keepMs, ...options }) {
    const fake = new FakeLockService(options);
    const started = await start([FakeLockModule.forRoot(fake)]);
    const occupied: string[] = [];
    return {
      ...started,
      occupy: async (key) => {
        occupied.push(key);
        fake.refuse(key);
      },
      vacate: async () => occupied.splice(0).forEach((key) => fake.grant(key)),
      cutOff: async () => void fake.fail(),
    };
  },
  async memory(options) {
    const server = new MemoryLockServer();
    const open = () => start([RedisLockTestingModule.forRoot({ ...options, server })]);
    const others = occupyBy(async () => (await open()).locks);
    return { ...(await open()), ...others, cutOff: async () => server.stop() };
  },
  async redis(options) {
    const proxy = await proxyTo();
    const keyPrefix = `lock:${randomUUID()}:`;
    const connection = `redis://127.0.0.1:${proxy.port}`;
    const open = () => start([RedisLockModule.forRoot({ ...options, connection, keyPrefix })]);
    const others = occupyBy(async () => (await open()).locks);
    return { ...(await open()), ...others, cutOff: async () => disconnect(proxy) };
  },
};
