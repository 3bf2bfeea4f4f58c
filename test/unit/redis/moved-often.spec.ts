import { randomUUID } from 'node:crypto';
import { type EventEmitter } from 'node:events';
import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { systemAfterTurn } from '../../../lib/core/runtime.js';
import { IoredisConnection } from '../../../lib/redis/client/ioredis/ioredis-connection.js';
import { type LeadsToMaster } from '../../../lib/redis/client/redis-client.js';
import { RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { eventually } from '../../support/waiting/eventually.js';

const ignore = (): void => undefined;
const reporter = { debug: ignore, warn: ignore, error: ignore };
const TIMES = 12;

describe('the store on Redis, whose sentinels name another master again and again while no server answers', () => {
  const original = Object.getOwnPropertyDescriptor(IoredisConnection.prototype, 'watchMaster')!;
  let onMaster: (leadsToMaster: LeadsToMaster) => void = ignore;

  beforeEach(() => {
    IoredisConnection.prototype.watchMaster = (callback) => {
      onMaster = callback;
      return null;
    };
  });
  afterEach(() => {
    Object.defineProperty(IoredisConnection.prototype, 'watchMaster', original);
  });

  it('waits for its next connection with one listener', async () => {
    const proxy = await startTcpProxy(Number(new URL(process.env['REDIS_URL']!).port));
    proxy.blackhole(true);
    const store = new RedisLockStore({
      connection: proxy.url,
      keyPrefix: `${randomUUID()}:`,
      keepMs: 60_000,
      minReplicas: 0,
      replicaTimeoutMs: 50,
      scripts: createLockScripts(),
      clock: systemClock,
      random: systemRandomness,
      afterTurn: systemAfterTurn,
      reporter,
    });
    const seen = new Map<unknown, number>();
    try {
      store.listen({ onWakeUp: ignore, onListening: ignore, onMessagesMissed: ignore });
      store.open();
      await eventually(
        () => {
          onMaster((client) => {
            seen.set(client, (seen.get(client) ?? 0) + 1);
            return false;
          });
          // Its socket ends at once, so that each move meets another one.
          proxy.cutAll();
          return Math.max(0, ...seen.values()) >= TIMES;
        },
        { timeoutMs: 20_000 },
      );
      const listeners = [...seen.keys()].map((seenClient) => {
        const { client } = seenClient as { client: EventEmitter };
        return client.listenerCount('ready');
      });
      expect(Math.max(...listeners)).toBeLessThan(TIMES - 2);
    } finally {
      await store.close();
      await proxy.close();
    }
  });
});
