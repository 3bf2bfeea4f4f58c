import { type Lock } from '../../../lib/index.js';
import { CONNECTIONS } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** How long a message takes, each way: a command of a lease of 300 ms is given up before its answer can come. */
const DELAY_MS = 75;

describe.each(Object.entries(CONNECTIONS))('a slow network (%s)', (_name, open) => {
  afterEach(closeAll);

  it('keeps the connection of locks with long leases while requests with short ones time out', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    proxy.delayMs = DELAY_MS;
    const { locks } = await startApp({ connection: open(proxy.url) });
    // What answers take is known.
    await locks.withLock(freshKey(), () => undefined);
    const connectionIds = async (): Promise<string[]> => ((await admin.client('LIST')) as string).match(/^id=\d+/gm)!;
    const before = await connectionIds();
    const held: Lock[] = [];
    for (const leaseMs of [3_000, 6_000]) held.push(await locks.acquire(freshKey(), { leaseMs }));
    const over = new AbortController();
    let tries = 0;
    const hasten = async (): Promise<void> => {
      while (!over.signal.aborted) {
        tries += 1;
        const lock = await locks.acquire(freshKey(), { leaseMs: 300, waitMs: 500 }).catch(() => null);
        await lock?.release().catch(() => undefined);
      }
    };
    const hasty = Array.from({ length: 4 }, hasten);
    try {
      await eventually(() => tries >= 24, { timeoutMs: 40_000 });
      expect(held.map((lock) => lock.held)).toEqual([true, true]);
      expect(await connectionIds()).toEqual(before);
    } finally {
      over.abort();
      await Promise.all(hasty);
    }
  }, 60_000);
});
