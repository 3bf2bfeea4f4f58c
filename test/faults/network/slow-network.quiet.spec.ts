import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock } from '../../../lib/index.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** How long a message takes, each way: a command of a lease of 300 ms is given up before its answer can come. */
const DELAY_MS = 75;

/** A connection is given up after 450 ms without an answer: a machine that stands still for so long may use that up. */
const STANDSTILL_MS = 100;
const MAX_RUNS = 4;

describe('a slow network', () => {
  afterEach(closeAll);

  it('keeps the connection of locks with long leases while requests with short ones time out', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    proxy.delayMs = DELAY_MS;
    const { locks } = await startApp({ connection: proxy.url });
    // What answers take is known.
    await locks.withLock(freshKey(), () => undefined);
    const connectionIds = async (): Promise<string[]> => ((await admin.client('LIST')) as string).match(/^id=\d+/gm)!;
    const held: Lock[] = [];
    for (const leaseMs of [3_000, 6_000]) held.push(await locks.acquire(freshKey(), { leaseMs }));
    const hasten = async (isOver: () => boolean, onTry: () => void): Promise<void> => {
      while (!isOver()) {
        onTry();
        const lock = await locks.acquire(freshKey(), { leaseMs: 300, waitMs: 500 }).catch(() => null);
        await lock?.release().catch(() => undefined);
      }
    };
    for (let runs = 1; ; runs += 1) {
      const before = await connectionIds();
      let tries = 0;
      const isOver = (): boolean => tries >= 24;
      const standstill = longestPingMs(admin, isOver);
      await Promise.all(Array.from({ length: 4 }, () => hasten(isOver, () => (tries += 1))));
      expect(held.map((lock) => lock.held)).toEqual([true, true]);
      const after = await connectionIds();
      if ((await standstill) < STANDSTILL_MS || runs === MAX_RUNS) return expect(after).toEqual(before);
    }
  }, 60_000);
});

/** Asks on a connection that the proxy does not delay: how long this process and its server stood still. */
async function longestPingMs(admin: Redis, isOver: () => boolean): Promise<number> {
  let longestMs = 0;
  while (!isOver()) {
    const from = performance.now();
    await admin.ping();
    longestMs = Math.max(longestMs, performance.now() - from);
    await sleep(10);
  }
  return longestMs;
}
