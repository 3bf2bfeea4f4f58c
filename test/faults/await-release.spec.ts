import { type RedisLockModuleOptions } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { startChildApp } from '../support/processes/child-app.js';
import { disconnect, ownRedis, proxyTo } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { rejection } from '../support/waiting/rejection.js';
import { untilWaiting } from '../support/waiting/waiters.js';

const LEASE_MS = 4_000;
const NO_WAIT: RedisLockModuleOptions = { awaitRelease: false, leaseMs: LEASE_MS };

/** A Redis that can keep all commands that write waiting. */
async function startPausable() {
  const redis = await ownRedis();
  const { admin } = redis;
  return {
    ...redis,
    pause: () => admin.call('CLIENT', 'PAUSE', '60000', 'WRITE'),
    goOn: () => admin.call('CLIENT', 'UNPAUSE'),
  };
}

describe('a call that does not wait for its release', () => {
  afterEach(closeAll);

  it('returns while the release is held up, and another process gets the lock after that', async () => {
    const { url, pause, goOn } = await startPausable();
    const app = await startApp({ ...NO_WAIT, connection: url });
    const other = await startChildApp({ connection: url });
    const key = freshKey();
    let next!: Promise<number>;
    const token = await app.locks.withLock(key, async ({ fencingToken }) => {
      next = other.acquire(key, { waitMs: 25_000 });
      await untilWaiting(app, key);
      await pause();
      return fencingToken;
    });
    expect(app.locker.live).toMatchObject({ locks: 0, releasing: 1 });
    expect(await other.isHeld()).toBe(false);
    await goOn();
    expect(await next).toBeGreaterThan(token);
    await eventually(() => app.locker.live.releasing === 0);
  });

  it('rejects when its lease was over before its work was, as one that waits', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const app = await startApp({ ...NO_WAIT, connection: proxy.url });
    const call = app.locks.withLock(freshKey(), async ({ signal }) => {
      proxy.blackhole(true);
      await eventually(() => signal.aborted);
      return 'done anyway';
    });
    expect(await rejection(call)).toMatchObject({ reason: 'unreachable', result: 'done anyway' });
  });

  it('returns when Redis has gone, and the lock ends with its lease', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const [app, other] = [await startApp({ ...NO_WAIT, connection: proxy.url }), await startApp({ connection: url })];
    const key = freshKey();
    expect(await app.locks.withLock(key, () => disconnect(proxy))).toBeUndefined();
    expect(await other.locks.isLocked(key)).toBe(true);
    const next = await other.locks.acquire(key, { waitMs: 25_000 });
    expect(next.held).toBe(true);
    await eventually(() => app.locker.live.releasing === 0);
  });
});
