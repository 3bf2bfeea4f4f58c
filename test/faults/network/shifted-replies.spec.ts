import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Lock } from '../../../lib/index.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { type RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { rejection } from '../../support/waiting/rejection.js';

/** From here on each command of the connection gets the reply of a later one: the server leaves out the replies to these two. */
function shiftReplies({ app }: LockApp): void {
  const client = app.get<RedisLockStore>(LOCK_STORE).commands.liveClient() as SingleClient;
  client.call(['CLIENT', 'REPLY', 'SKIP']).catch(() => undefined);
  client.call(['PING']).catch(() => undefined);
}

describe('a connection whose replies are shifted', () => {
  afterEach(closeAll);

  it.each([1, 2])(
    'never takes the reply of another command for its own, with %i calls in a command',
    async (atOnce) => {
      const { url } = await ownRedis();
      const [app, other] = [await startApp({ connection: url }), await startApp({ connection: url })];
      const { locks } = app;
      const [busy, free] = [freshKey('busy'), freshKey('free')];
      await locks.withLock(freshKey(), () => undefined);
      const held = await other.locks.acquire(busy);
      shiftReplies(app);
      const calls: Promise<Lock | null>[] = [];
      for (const key of [busy, free, free, busy]) {
        // Those of one turn travel together.
        for (let i = 0; i < atOnce; i += 1) calls.push(locks.acquire(key, { waitMs: 0 }).catch(() => null));
        await nextTurn();
      }
      const all = await Promise.all(calls);
      expect([...all.slice(0, atOnce), ...all.slice(-atOnce)]).toEqual(Array(2 * atOnce).fill(null));
      // The connection was replaced: what follows has its own replies.
      expect(await rejection(locks.acquire(busy, { waitMs: 0 }))).toMatchObject({ code: 'LOCK_BUSY' });
      expect(held.held).toBe(true);
      await held.release();
      const next = await locks.acquire(busy, { waitMs: 20_000 });
      expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    },
  );
});
