import { setImmediate as nextTurn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Locked } from '../../../lib/index.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

/** Keeps the event loop busy, as a large JSON or a garbage collection does. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

@Injectable()
class Work {
  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'run-unlocked' })
  async run(_id: string): Promise<string> {
    return 'ran';
  }
}

describe('a process that was blocked while its call was answered', () => {
  afterEach(closeAll);

  it.each([
    { leaseMs: 30_000, waitMs: 0, blockedMs: 1_500 },
    { leaseMs: 400, waitMs: 0, blockedMs: 300 },
    { leaseMs: 24_000, waitMs: 10_000, blockedMs: 5_500 },
  ])(
    'gets the lock that it was granted ($leaseMs ms lease, $blockedMs ms blocked)',
    async ({ blockedMs, ...options }) => {
      const { url, admin } = await ownRedis();
      const { locks } = await startApp({ connection: url });
      await locks.withLock(freshKey(), () => undefined);
      const connections = async () => (await admin.client('LIST')) as string;
      const idsOf = (list: string) => list.match(/^id=\d+/gm);
      const before = idsOf(await connections());
      const key = freshKey();
      const acquiring = locks.acquire(key, options);
      await nextTurn();
      block(blockedMs);
      const lock = await acquiring;
      expect(lock.held || options.leaseMs < blockedMs + 200).toBe(true);
      // Nothing was wrong with the connections.
      expect(idsOf(await connections())).toEqual(before);
      await lock.release();
    },
  );

  it('keeps its connections to a Redis that is far away', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    // Each way: the answers come later than those that are there when the block ends.
    proxy.delayMs = 40;
    const { locks } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    const idsOf = async () => ((await admin.client('LIST')) as string).match(/^id=\d+/gm);
    const before = await idsOf();
    const acquiring = locks.acquire(freshKey(), { leaseMs: 400 });
    await nextTurn();
    block(400);
    const lock = await acquiring;
    expect(await idsOf()).toEqual(before);
    await lock.release();
  });

  it('does not run unlocked beside the holder', async () => {
    const { url } = await ownRedis();
    const holder = await startApp({ connection: url });
    const { app, locks } = await startApp({ connection: url }, { providers: [Work] });
    await locks.withLock(freshKey(), () => undefined);
    const id = freshKey();
    const held = await holder.locks.acquire(`work:${id}`);
    const running = rejection(app.get(Work).run(id));
    await nextTurn();
    block(1_500);
    expect(await running).toMatchObject({ code: 'LOCK_BUSY' });
    expect(held.held).toBe(true);
    await held.release();
  });
});
