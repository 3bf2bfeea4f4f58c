import { Locker } from '../../../lib/core/acquire/locker.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { systemAfterTurn, systemRuntime } from '../../../lib/core/runtime.js';
import { systemClock } from '../../../lib/core/clock.js';
import { RedisLockService, type RedisLockModuleOptions, createLockScripts } from '../../../lib/index.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { openStore } from '../../../lib/redis/open-store.js';
import { type Answer, FakeRedis } from './fake-redis.js';
import { settled } from './scene.js';

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
  store.open();
  const close = async (): Promise<void> => {
    await settled(locker.close(0));
    await settled(store.close());
    await redis.close();
    const left = Object.entries(locker.live).filter(([, count]) => count > 0);
    if (left.length > 0) throw new Error(`Something was left after the end: ${JSON.stringify(left)}`);
  };
  return { redis, locker, lines, locks: new RedisLockService(locker, store, defaults), close };
}
