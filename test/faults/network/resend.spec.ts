import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock, LockStoreError } from '../../../lib/index.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, isCommand, loadScripts, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { expectNothingAlive, untilRenewed } from '../../support/waiting/waiters.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { type RedisLockStore } from '../../../lib/redis/redis-lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { heldRow, startNet } from '../../support/redis/quorum-net.js';

afterEach(closeAll);

async function expectOneHold({ locks }: LockApp, key: string, token: number): Promise<void> {
  // The last token is that of the hold: no second one was granted.
  expect(await locks.inspect(key)).toMatchObject({ fencingToken: token, holders: [{ fencingToken: token }] });
}

/** Two instances: `a` behind a network that loses replies, and `b` behind a good one. */
async function startPair() {
  const [proxy, admin] = [await proxyTo(), openAdmin()];
  await loadScripts(admin);
  return { proxy, admin, a: await startApp({ connection: proxy.url }), b: await startApp() };
}

describe('promise 7: commands may be sent twice', () => {
  it('grants a lock once when the reply to acquire is lost', async () => {
    const { proxy, a, b } = await startPair();
    const key = freshKey();
    proxy.dropNextReply(isCommand('acquire'));
    const lock = await a.locks.acquire(key);
    expect(proxy.droppedReplies).toBe(1);
    await expectOneHold(b, key, lock.fencingToken);
    await lock.release();
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('keeps the place of a waiter when the busy reply is lost', async () => {
    const { proxy, admin, a, b } = await startPair();
    const key = freshKey();
    const held = await b.locks.acquire(key);
    proxy.dropNextReply(isCommand('acquire'));
    const next = a.locks.acquire(key, { waitMs: 25_000 });
    await eventually(() => proxy.droppedReplies === 1);
    await eventually(async () => (await queued(admin, key)) === 1);
    await held.release();
    await expectOneHold(b, key, (await next).fencingToken);
  });

  it('renews a lock, with the same token, when the reply to a renewal is lost', async () => {
    const { proxy, a, b } = await startPair();
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    const token = lock.fencingToken;
    proxy.dropNextReply(isCommand('renew'));
    await lock.extend(60_000);
    expect(proxy.droppedReplies).toBe(1);
    expect(lock.remainingMs).toBeGreaterThan(40_000);
    await expectOneHold(b, key, token);
  });

  it('releases a lock once when the reply to release is lost, and the next holder keeps it', async () => {
    const { proxy, admin, a, b } = await startPair();
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await eventually(async () => (await queued(admin, key)) === 1);
    proxy.dropNextReply(isCommand('release'));
    await lock.release();
    const { fencingToken } = await next;
    await eventually(() => a.locker.live.releasing === 0);
    expect(proxy.droppedReplies).toBe(1);
    await expectOneHold(b, key, fencingToken);
    expect(lock.signal.aborted).toBe(false);
  });

  it.each([
    ['free', async () => undefined],
    [
      'held by another call',
      async ({ b }: Awaited<ReturnType<typeof startPair>>, key: string) => void (await b.locks.acquire(key)),
    ],
  ])(
    'reports the loss of a lock that was deleted before its release and is %s, although the first reply is lost',
    async (_now, before) => {
      const pair = await startPair();
      const { proxy, admin, a } = pair;
      const key = freshKey();
      const lock = await a.locks.acquire(key);
      await admin.del(`lock:${key}`);
      await before(pair, key);
      proxy.dropNextReply(isCommand('release'));
      expect(await lock.release()).toBe(false);
      expect(proxy.droppedReplies).toBe(1);
      expect(lock.signal.reason).toMatchObject({ name: 'LockLostError' });
    },
  );

  it('has one holder per key while connections are cut all the time', async () => {
    const { proxy, a, b } = await startPair();
    // They end, because a slow machine may get nothing through between two of them.
    let left = 150;
    const cuts = setInterval(() => (left -= 1) >= 0 && proxy.cutAll(), 40);
    const inside = new Map<string, number>();
    const keys = [freshKey(), freshKey()];
    const work = async (key: string) => {
      inside.set(key, (inside.get(key) ?? 0) + 1);
      expect(inside.get(key)).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 2));
      inside.set(key, inside.get(key)! - 1);
    };
    const calls = Array.from({ length: 80 }, (_, i) =>
      (i % 4 === 0 ? b : a).locks.withLock(keys[i % 2]!, { waitMs: 25_000 }, () => work(keys[i % 2]!)),
    );
    await Promise.all(calls).finally(() => clearInterval(cuts));
    for (const key of keys) await eventually(async () => !(await b.locks.isLocked(key)));
  });

  it('leaves nothing behind of an acquire that was cancelled before its reply', async () => {
    const { proxy, admin, a, b } = await startPair();
    const keys = [freshKey('once'), freshKey('waits')];
    // The first lock makes the app read the server's clock, which it would otherwise do before the acquire.
    await a.locks.withLock(freshKey(), () => undefined);
    proxy.delayMs = 2_500;
    const calls = [a.locks.acquire(keys[0]!, { waitMs: 0 }), a.locks.acquire(keys[1]!, { waitMs: 300 })];
    for (const error of await Promise.all(calls.map((call) => rejection(call)))) {
      expect(error).toBeInstanceOf(LockStoreError);
    }
    for (const key of keys) await eventually(async () => Number((await hashOf(admin, key))['token']) > 0);
    proxy.delayMs = 0;
    await expectNothingAlive([a]);
    for (const key of keys) expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('gives back a claim that is cancelled after Redis granted it, and another instance runs the fire', async () => {
    const { proxy, admin, a, b } = await startPair();
    for (const { locks } of [a, b]) await locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    const controller = new AbortController();
    proxy.dropNextReply(isCommand('acquire'));
    const failed = rejection(claimFire(a, key, {}, { signal: controller.signal }));
    await eventually(async () => (await hashOf(admin, key))['run:Jobs.run'] !== undefined);
    controller.abort(new Error('given up'));
    expect(await failed).toHaveProperty('message', 'given up');
    await eventually(() => a.locker.live.releasing === 0);
    const lock = await claimFire(b, key);
    await lock.releaseAfter('done');
    expect(await b.locks.lastRun(key)).toMatchObject({ outcome: 'done' });
    expect((await rejection(claimFire(a, key))).name).toBe('LockBusyError');
  });
});

describe('promise 7: scripts that were flushed', () => {
  it('every command works after SCRIPT FLUSH', async () => {
    const { admin, url } = await ownRedis();
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    await admin.script('FLUSH');
    const lock = await a.locks.acquire(key);
    await admin.script('FLUSH');
    await lock.extend(60_000);
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await eventually(async () => (await queued(admin, key)) === 1);
    await admin.script('FLUSH');
    await lock.release();
    expect((await next).held).toBe(true);
    await admin.script('FLUSH');
    expect((await b.locks.inspect(key)).holders).toHaveLength(1);
  });
});

/** From here on each command of the connection gets the reply of a later one: the server leaves out the replies to these two. */
function shiftReplies({ app }: LockApp): void {
  const client = app.get<RedisLockStore>(LOCK_STORE).commands.liveClient() as SingleClient;
  client.call(['CLIENT', 'REPLY', 'SKIP']).catch(() => undefined);
  client.call(['PING']).catch(() => undefined);
}

describe('a connection whose replies are shifted', () => {
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

/** How each hold of a lock is held, as a server has it. */
async function modesOn(admin: Redis, key: string): Promise<string[]> {
  const holds = Object.entries(await hashOf(admin, key)).filter(([field]) => field.startsWith('hold:'));
  return holds.map(([, record]) => record.split(' ')[2]!);
}

/** Renewed soon. */
const LEASE_MS = 3_000;

describe('a downgrade that did not arrive', () => {
  it('is repeated by a renewal on the node of a quorum that missed it, and admits readers there', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app({ leaseMs: LEASE_MS }), await net.app()];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    // A node is asked for a downgrade only when its answer to the acquire has been read.
    await untilRenewed(a, 1);
    a.reaches(0, 1);
    await lock.downgrade();
    // By then the command for that node has been given up.
    await untilRenewed(a, 2);
    expect(await modesOn(net.admins[2]!, key)).toEqual(['write']);
    a.reaches(0, 1, 2);
    await eventually(async () => (await modesOn(net.admins[2]!, key))[0] === 'read');
    // Also of a majority with that node.
    b.reaches(1, 2);
    const reader = await b.locks.acquire(key, { mode: 'read', waitMs: 5_000 });
    expect([lock.held, lock.mode, reader.held]).toEqual([true, 'read', true]);
    await Promise.all([lock.release(), reader.release()]);
  }, 60_000);

  it('is repeated by a renewal, since the lock already reports that it only reads', async () => {
    const { admin, url } = await ownRedis();
    const proxy = await proxyTo(url);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp({ connection: url })];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 2 * LEASE_MS });
    disconnect(proxy);
    expect(await rejection(lock.downgrade())).toBeInstanceOf(LockStoreError);
    expect([lock.mode, await modesOn(admin, key)]).toEqual(['read', ['write']]);
    proxy.refuse(false);
    const reader = await b.locks.acquire(key, { mode: 'read', waitMs: 10_000 });
    expect([lock.held, reader.held, await modesOn(admin, key)]).toEqual([true, true, ['read', 'read']]);
    await Promise.all([lock.release(), reader.release()]);
  }, 60_000);
});
