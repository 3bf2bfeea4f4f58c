import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { hasSubscribed, startVip } from '../../support/network/vip.js';
import { queued } from '../../support/redis/records.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { expectWoken } from '../../support/waiting/waiters.js';

afterEach(closeAll);

/** Two servers, of which the second follows the first, behind an address that leads to the first. */
async function start() {
  const [a, b] = [await ownRedis(), await ownRedis()];
  await b.admin.replicaof('127.0.0.1', a.port);
  await eventually(async () => (await a.admin.info('replication')).includes('state=online'));
  const vip = closeLater(await startVip(a.port));
  /** As an operator does it: nothing is lost, and connections stay where they are. */
  const failOver = async (): Promise<void> => {
    await a.admin.call('FAILOVER', 'TO', '127.0.0.1', String(b.port));
    await eventually(async () => (await b.admin.role())[0] === 'master' && (await a.admin.role())[0] === 'slave');
    vip.target = b.port;
  };
  return { a, b, vip, failOver };
}

/** The locks that their holders consider held at this moment. */
const believers = (locks: readonly (Lock | undefined)[]): number => locks.filter((lock) => lock?.held).length;

describe('behind an address that moves', () => {
  it('one of two waiters is granted with its own token when the subscriber of the first stayed behind', async () => {
    const { b, vip, failOver } = await start();
    const apps: LockApp[] = [];
    for (let i = 0; i < 3; i++) apps.push(await startApp({ connection: vip.url }));
    const [h, w, x] = apps as [LockApp, LockApp, LockApp];
    const key = freshKey();
    const held = await h.locks.acquire(key, { leaseMs: 60_000 });
    const granted: (Lock | undefined)[] = [];
    const wait = ({ locks }: LockApp, i: number) =>
      locks.acquire(key, { leaseMs: 60_000, waitMs: 60_000 }).then((lock) => (granted[i] = lock));
    const first = wait(w, 0);
    await eventually(async () => (await queued(b.admin, key)) === 1);
    const second = wait(x, 1);
    await eventually(async () => (await queued(b.admin, key)) === 2);
    await failOver();
    // Commands go to the new master by then, at the latest with the next poll.
    await eventually(async () => (await h.locks.inspect(key)).waiters === 2);
    await held.release();
    const one = await Promise.race([first, second]);
    expect(believers(granted)).toBe(1);
    await one.release();
    const [p, q] = await Promise.all([first, second]);
    expect(p.fencingToken).not.toBe(q.fencingToken);
    expect(believers(granted)).toBe(1);
  }, 90_000);

  it('locks continue at the new master, although the old one still answers reads', async () => {
    const { vip, failOver } = await start();
    const { locks } = await startApp({ connection: vip.url });
    const key = freshKey();
    await locks.withLock(key, () => undefined);
    await failOver();
    const stop = new AbortController();
    const look = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        await locks.inspect(key).catch(() => undefined);
        await sleep(100);
      }
    };
    const looking = look();
    const lock = await locks.acquire(key, { waitMs: 20_000 }).finally(() => stop.abort());
    await looking;
    await lock.release();
  }, 90_000);
});

describe('a subscriber that is silently dead', () => {
  it('does not let its waiters starve while others are served', async () => {
    const server = await ownRedis();
    const vip = closeLater(await startVip(server.port));
    const [w, other] = [await startApp({ connection: vip.url }), await startApp({ connection: server.url })];
    const key = freshKey();
    const stop = new AbortController();
    const work = async (): Promise<void> => {
      while (!stop.signal.aborted) await other.locks.withLock(key, { waitMs: 30_000 }, () => undefined);
    };
    const busy = Promise.all([work(), work(), work()]);
    await w.locks.withLock(key, { waitMs: 30_000 }, () => undefined);
    await eventually(async () => (await server.admin.pubsub('CHANNELS', 'lock:wake:*')).length === 2);
    expect(vip.forget(hasSubscribed)).toBe(1);
    for (let i = 0; i < 4; i++) await w.locks.withLock(key, { waitMs: 10_000 }, () => undefined);
    stop.abort();
    await busy;
  }, 90_000);
});

describe('a grant that cannot be announced', () => {
  it.each([
    ['count the listeners', ['-pubsub']],
    ['ask which server it is', ['-info']],
  ])('is not made: the waiter is woken and requests the lock where the user may not %s', async (_what, rights) => {
    const server = await ownRedis();
    await server.admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', ...rights);
    const url = `redis://app:secret@127.0.0.1:${server.port}`;
    const [h, w] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    const held = await h.locks.acquire(key);
    const waiting = w.locks.acquire(key, { waitMs: 30_000 });
    await eventually(async () => (await queued(server.admin, key)) === 1);
    const listener = openAdmin(server.url);
    const heard: string[] = [];
    await listener.psubscribe('lock:wake:*');
    listener.on('pmessage', (_pattern: string, _channel: string, message: string) =>
      heard.push(message.split(' ')[0]!),
    );
    await held.release();
    const next = await waiting;
    // A grant by asking has all of its lease; one that was pushed has six seconds.
    expect(next.remainingMs).toBeGreaterThan(20_000);
    // The message for the listener may be in its socket still.
    await eventually(() => heard.length > 0);
  });
});

/** Whether an app listens to a server. */
async function listensTo(admin: Redis, { app }: LockApp): Promise<boolean> {
  const channel = `lock:wake:${app.get<LockStore>(LOCK_STORE).clientId}`;
  return Number((await admin.pubsub('NUMSUB', channel))[1]) > 0;
}

describe('the subscriber', () => {
  it('is replaced when its connection is silently dead while a call waits', async () => {
    const { admin, port, url } = await ownRedis();
    const vip = closeLater(await startVip(port));
    const [holder, waiter] = [await startApp({ connection: url }), await startApp({ connection: vip.url })];
    const key = freshKey();
    const lock = await holder.locks.acquire(key);
    const waiting = waiter.locks.acquire(key, { waitMs: 60_000 });
    await eventually(async () => (await holder.locks.inspect(key)).waiters === 1);
    await eventually(() => listensTo(admin, waiter));
    // As when a NAT drops the connection: the server notices, the client does not.
    expect(vip.forget(hasSubscribed)).toBe(1);
    await eventually(async () => !(await listensTo(admin, waiter)));
    await eventually(() => listensTo(admin, waiter), { timeoutMs: 20_000 });
    await lock.release();
    await (await waiting).release();
    await expectWoken(holder, waiter);
  }, 60_000);

  it('follows the commands to another server', async () => {
    const [a, b] = [await ownRedis(), await ownRedis()];
    await b.admin.call('REPLICAOF', '127.0.0.1', a.port);
    await eventually(async () => (await a.admin.info('replication')).includes('state=online'), { timeoutMs: 20_000 });
    const vip = closeLater(await startVip(a.port));
    const app = await startApp({ connection: vip.url });
    await app.locks.withLock(freshKey(), () => undefined);
    await eventually(() => listensTo(a.admin, app));
    // The address moves; connections that exist stay.
    vip.target = b.port;
    await a.admin.call('FAILOVER');
    await eventually(async () => (await b.admin.info('replication')).includes('role:master'), { timeoutMs: 20_000 });
    const key = freshKey();
    const lock = await app.locks.acquire(key, { waitMs: 20_000, leaseMs: 4_000 });
    expect(await b.admin.exists(`lock:${key}`)).toBe(1);
    await eventually(() => listensTo(b.admin, app));
    expect(await listensTo(a.admin, app)).toBe(false);
    await lock.release();
  }, 60_000);
});
