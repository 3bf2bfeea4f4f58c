import { createLockScripts, type RedisLockModuleOptions, RedisLockService } from '../../../lib/index.js';
import { closeLater, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type Answer, FakeRedis, type Received } from './fake-redis.js';
import { Locker } from '../../../lib/core/acquire/locker.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { systemAfterTurn, systemRuntime } from '../../../lib/core/runtime.js';
import { systemClock } from '../../../lib/core/clock.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { openStore } from '../../../lib/redis/open-store.js';
import { type Reply } from './resp.js';

/** How long any call of these tests may take: all limits that they set are shorter, but the machine may stall. */
const SETTLED_MS = 10_000;

/** An app and the server that it talks to. */
export interface Scene extends LockApp {
  readonly redis: FakeRedis;
}

/** Starts both; `closeAll` closes them. */
export async function startScene(options: RedisLockModuleOptions = {}, answer?: Answer): Promise<Scene> {
  const redis = closeLater(await FakeRedis.start(answer));
  const app = await startApp({ connection: redis.url, ...options });
  return { ...app, redis };
}

/** Rejects if the call is still pending after a long time. */
export async function settled<T>(call: Promise<T>, limitMs = SETTLED_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`The call was pending after ${limitMs} ms`)), limitMs);
  });
  return Promise.race([call, limit]).finally(() => clearTimeout(timer));
}

/** Waits until the module has nothing left of any call. */
export async function untilNothingLeft({ locker }: Pick<LockApp, 'locker'>): Promise<void> {
  const left = () => Object.entries(locker.live).filter(([, count]) => count > 0);
  if (left().length === 0) return;
  await eventually(() => left().length === 0, { intervalMs: 1, message: 'Something was left of the call' });
}

const scripts = createLockScripts();

/** A lock service without Nest, for one case alone, and the server that it talks to. */
export interface BareScene {
  readonly redis: FakeRedis;
  readonly locker: Locker;
  readonly locks: RedisLockService;
  /** All lines of the log. */
  readonly lines: readonly string[];
  /** Throws if something is left of the calls then. */
  close(): Promise<void>;
}

export async function startBareScene(answer: Answer, options: RedisLockModuleOptions = {}): Promise<BareScene> {
  const redis = await FakeRedis.start(answer);
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const reporter = { debug: log, warn: log, error: log };
  const connection = redis.url;
  const defaults = resolveModuleOptions({ connection, ...options });
  const store = openStore({
    ...defaults,
    connection,
    scripts,
    clock: systemClock,
    random: systemRandomness,
    afterTurn: systemAfterTurn,
    reporter,
  });
  const locker = new Locker(systemRuntime(), store, reporter, 'fuzz:1');
  store.open?.();
  const close = async (): Promise<void> => {
    await settled(locker.close(0));
    await settled(store.close());
    await redis.close();
    const left = Object.entries(locker.live).filter(([, count]) => count > 0);
    if (left.length > 0) throw new Error(`Something was left after the end: ${JSON.stringify(left)}`);
  };
  return { redis, locker, lines, locks: new RedisLockService(locker, store, defaults), close };
}

const MAX_LEASE_MS = 30 * 24 * 60 * 60 * 1_000;

const whole = (part: unknown, min: number, max = Number.MAX_SAFE_INTEGER): boolean =>
  /^\d+$/.test(String(part)) && Number(part) >= min && Number(part) <= max;

const isPlain = (part: Reply): boolean => typeof part === 'string' || typeof part === 'number';

const OUTCOMES: Readonly<Record<string, string>> = {
  acquire: 'granted',
  acquireMany: 'granted',
  renew: 'renewed',
  adopt: 'adopted',
};

/** For how long a reply grants or renews a lock, by what our scripts reply: written down once more. 0: it does not. */
function leaseIn({ name, operands, keys }: Received, reply: Reply): number {
  if (!Array.isArray(reply) || !reply.every(isPlain) || reply[1] !== operands['attempt']) return 0;
  if (reply[0] !== OUTCOMES[name] || !whole(reply[3], 1, MAX_LEASE_MS)) return 0;
  if (name !== 'renew' && !whole(reply[2], 0)) return 0;
  const tokens = reply[0] === 'granted' ? reply.slice(6) : [];
  if (!tokens.every((token) => whole(token, 1))) return 0;
  return reply[0] === 'granted' && tokens.length !== keys.length ? 0 : Number(reply[3]);
}

/** Until when the replies of a server, or the messages, permit a hold of the lock. */
export class Backing {
  until = 0;

  onReply(command: Received, reply: Reply): void {
    const leaseMs = leaseIn(command, reply);
    if (leaseMs > 0) this.until = Math.max(this.until, performance.now() + leaseMs);
  }

  /** The holder has transferred its lock: its grant no longer permits a hold. */
  onTransferred(): void {
    this.until = 0;
  }

  /** Throws if a caller believes that it holds the lock, and the server has not let it. */
  check(held: boolean): void {
    if (held && performance.now() > this.until) throw new Error('The lock is held, though the server granted nothing');
  }
}
