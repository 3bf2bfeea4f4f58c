import { randomUUID } from 'node:crypto';
import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { type TestingModule } from '@nestjs/testing';
import {
  currentLock,
  Limited,
  type Lock,
  Locked,
  LockError,
  type LockEventName,
  type LockEvents,
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
import { EVENT_NAMES } from '../../../support/apps/event-names.js';
import { disconnect, proxyTo } from '../../../support/redis/own-redis.js';
import { startModule } from '../../../support/apps/lock-app.js';

/** Decorated methods with each option. */
@Injectable()
class Work implements BeforeApplicationShutdown {
  /** What happens while a method holds its lock. */
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

  @Locked('order:<0>', { onUnavailable: 'skip', waitMs: 0 })
  async skipsAway(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { onUnavailable: 'run-unlocked', waitMs: 0 })
  async unlocked(id: string): Promise<unknown> {
    return `ran ${id}`;
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

/** An app with locks of one kind, and what a test can do to them from outside. */
export interface World {
  readonly app: TestingModule;
  readonly locks: RedisLockService;
  readonly work: Work;
  /** From now on another caller holds it. */
  readonly occupy: (key: string, options?: LockOptions) => Promise<void>;
  /** What was occupied is free again. */
  readonly vacate: () => Promise<void>;
  /** From now on Redis is away. */
  readonly cutOff: () => Promise<void>;
}

/** How an app gets its locks. */
type KitName = 'fake' | 'memory' | 'redis';

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

/** Production's tokens are microseconds; one that fits an INT hides a column that is too small. */
const tokenText = (token: unknown): string =>
  Number(token) > 2 ** 32 ? 'a token' : `the small token ${String(token)}`;
const timeText = (ms: unknown): string => (Number.isFinite(ms) ? 'a time' : String(ms));
const holderText = (holder: unknown): string => (holder === undefined ? 'nobody' : 'a holder');

/** What differs from run to run, by its name. */
const TEXTS: Readonly<Record<string, (value: unknown) => unknown>> = {
  fencingToken: tokenText,
  fencingTokens: (tokens) => (tokens as unknown[]).map(tokenText),
  waitedMs: timeText,
  heldMs: timeText,
  remainingMs: timeText,
  serverTimeMs: timeText,
  attempt: () => 'an attempt',
  holder: holderText,
  host: () => 'a host',
  pid: () => 'a pid',
  instance: () => 'a host and a pid',
  // The text of the client, and its replacement by the kit.
  cause: (cause) => (cause === undefined ? undefined : 'a cause'),
};

/** An error text without what differs from run to run. */
const shapeOf = (message: string): string =>
  message
    .replace(/held by [^,]+,/, 'held by a holder,')
    .replace(/(was not acquired within \S+ ms: ).*/, '$1why')
    .replace(/(could not be \w+: ).*(\. It is held)/, '$1why$2')
    .replace(/\d{10,}/g, 'a token')
    .replace(/\b\d+ ms/g, 'a time');

/** A value without what differs from run to run. */
function told(value: unknown): unknown {
  if (value instanceof Error) return toldError(value);
  if (value instanceof Date) return 'a date';
  if (typeof value === 'number') return value > 2 ** 32 ? 'a token' : value;
  if (Array.isArray(value)) return value.map(told);
  if (typeof value !== 'object' || value === null) return value;
  if ('fencingTokens' in value) return toldLock(value as Lock);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, TEXTS[name]?.(one) ?? told(one)]));
}

function toldError(error: Error): unknown {
  const { name, message } = error;
  if (!(error instanceof LockError)) return { name, message };
  // An error of a lost or missing store gets its text from the called method; its kind and its properties do not depend on it.
  const properties = Object.fromEntries(Object.entries(error));
  const isOfStore = error.code === 'LOCK_STORE' && !/was not acquired|It is held/.test(message);
  return { name, code: error.code, message: isOfStore ? 'why' : shapeOf(message), ...(told(properties) as object) };
}

function toldLock({ key, keys, mode, owner, fencingTokens, held, remainingMs, signal }: Lock): unknown {
  const tokens = fencingTokens.map(tokenText);
  const ours = owner.startsWith('owner') ? owner : 'an attempt';
  return { key, keys, mode, owner: ours, tokens, held, remains: remainingMs > 0, lost: told(signal.reason) };
}

/** How a call ended. */
export const ended = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    (value) => ({ resolved: told(value) }),
    (error: unknown) => ({ rejected: told(error) }),
  );

/** Records all events, in their order. */
export function record(events: LockEvents): unknown[] {
  const seen: unknown[] = [];
  const listen = (name: LockEventName) =>
    events.on(name, (event: object) => {
      // The number of tries until the lease is over depends on the failure of the network.
      if (name !== 'renewFailed' || (seen.at(-1) as unknown[] | undefined)?.[0] !== name)
        seen.push([name, told({ ...event })]);
    });
  EVENT_NAMES.forEach(listen);
  return seen;
}
