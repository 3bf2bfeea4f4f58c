import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { Observable, of } from 'rxjs';
import { randomUUID } from 'node:crypto';
import { type TestingModule } from '@nestjs/testing';
import {
  currentLock,
  Limited,
  type Lock,
  Locked,
  type LockOptions,
  ReadLocked,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
  WriteLocked,
} from '../../../../lib/index.js';
import {
  FakeLockModule,
  FakeLockService,
  MemoryLockServer,
  RedisLockTestingModule,
} from '../../../../lib/testing/index.js';
import { disconnect, proxyTo } from '../../../support/redis/own-redis.js';
import { startModule } from '../../../support/apps/lock-app.js';

/** Decorated methods with each option. */
@Injectable()
export class Work implements BeforeApplicationShutdown {
  /** What goes on while a method holds its lock. */
  inside: () => unknown = () => undefined;
  /** Whether the app is being closed. */
  isClosing = false;

  beforeApplicationShutdown(): void {
    this.isClosing = true;
  }

  @Locked('order:<0>', { waitMs: 30 })
  async waits(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: 'skip' })
  async skips(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: 'throw' })
  async throws(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: (key: string, id: string) => `${key} is busy for ${id}` })
  async answers(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @ReadLocked('order:<0>', { waitMs: 30 })
  async reads(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @WriteLocked(['order:<0>', 'order:<1>'], { waitMs: 30 })
  async moves(id: string, _other: string): Promise<unknown> {
    return this.#run(id);
  }

  @Limited('order:<0>', 2, { waitMs: 30 })
  async limited(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { reentrant: false })
  async strict(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked((keys: readonly string[]) => keys)
  async chosen(_keys: readonly string[]): Promise<unknown> {
    return this.#run('chosen');
  }

  @Locked('order:<0>', { onUnavailable: 'skip', waitMs: 0 })
  async skipsAway(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { onUnavailable: 'run-unlocked', waitMs: 0 })
  async unlocked(id: string): Promise<unknown> {
    return `ran ${id}`;
  }

  @Locked('order:<0>', { onUnavailable: 'fail', waitMs: 0 })
  async fails(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0 })
  async slot(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0, ifBusy: 'throw' })
  async slotThrows(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0, rerunOnLoss: true, waitMs: 30 })
  async slotAgain(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked((keys: readonly string[]) => keys, { oncePer: 3_600_000, spreadMs: 0 })
  async slotChosen(_keys: readonly string[]): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('order:<0>', { waitMs: 30 })
  values(id: string): Observable<string> {
    return of(id, currentLock().key);
  }

  @Locked('order:<0>', { ifBusy: 'skip' })
  async *items(id: string): AsyncGenerator<string> {
    yield id;
    yield currentLock().key;
  }

  async #run(id: string): Promise<unknown> {
    const { key, mode } = currentLock();
    return { ran: id, key, mode, inside: await this.inside() };
  }
}

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
