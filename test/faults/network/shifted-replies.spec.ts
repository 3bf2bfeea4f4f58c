import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Lock } from '../../../lib/index.js';
import { type AppClient, appClient } from '../../support/redis/connections.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { rejection } from '../../support/waiting/rejection.js';

/** From here on each command of the client gets the reply of a later one: the server leaves out the replies to these two. */
function shiftReplies(client: AppClient): void {
  client.send('CLIENT', 'REPLY', 'SKIP').catch(() => undefined);
  client.send('PING').catch(() => undefined);
}

describe('a client whose replies are shifted', () => {
  afterEach(closeAll);

  it.each([1, 2])(
    'never takes the reply of another command for its own, with %i calls in a command',
    async (atOnce) => {
      const { url } = await ownRedis();
      const client = appClient(url);
      const [{ locks }, other] = [await startApp({ connection: client.client }), await startApp({ connection: url })];
      const [busy, free] = [freshKey('busy'), freshKey('free')];
      await locks.withLock(freshKey(), () => undefined);
      const held = await other.locks.acquire(busy);
      shiftReplies(client);
      const calls: Promise<Lock | null>[] = [];
      for (const key of [busy, free, free, busy]) {
        // Those of one turn travel together.
        for (let i = 0; i < atOnce; i += 1) calls.push(locks.acquire(key, { waitMs: 0 }).catch(() => null));
        await nextTurn();
      }
      const all = await Promise.all(calls);
      expect([...all.slice(0, atOnce), ...all.slice(-atOnce)]).toEqual(Array(2 * atOnce).fill(null));
      // The client was left: what follows has its own replies.
      expect(await rejection(locks.acquire(busy, { waitMs: 0 }))).toMatchObject({ code: 'LOCK_BUSY' });
      expect(held.held).toBe(true);
      await held.release();
      const next = await locks.acquire(busy, { waitMs: 20_000 });
      expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    },
  );
});
