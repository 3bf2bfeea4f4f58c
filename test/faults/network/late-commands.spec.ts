import { eventually } from '../../support/waiting/eventually.js';
import { isCommand, loadScripts, proxyTo } from '../../support/redis/own-redis.js';
import { type KeptCommand, type TcpProxy } from '../../support/network/tcp-proxy.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { hashOf } from '../../support/redis/records.js';

afterEach(closeAll);

/** More than a lock remembers of the attempts that were released. */
const USES = 9;

/** How many holds lie in Redis. */
const holds = async (admin: ReturnType<typeof openAdmin>, key: string): Promise<number> =>
  Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('hold:')).length;

/** Keeps the next such command on its way, and nothing comes after it. */
const keepLast = (proxy: TcpProxy, name: 'acquire' | 'forceRelease' | 'setPermits' = 'acquire'): KeptCommand =>
  proxy.keepNext((text) => {
    if (!isCommand(name)(text)) return false;
    proxy.refuse(true);
    return true;
  });

async function useOften({ locks }: LockApp, key: string): Promise<void> {
  for (let i = 0; i < USES; i++) await locks.withLock(key, () => undefined);
}

/** An instance whose network is slow at times, and another one. */
async function start() {
  const [proxy, admin] = [await proxyTo(), openAdmin()];
  await loadScripts(admin);
  const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
  await a.locks.withLock(freshKey(), () => undefined);
  return { proxy, admin, a, b };
}

describe('an acquire that arrives after its attempt has ended', () => {
  it.each([
    ['an exclusive lock', {}],
    ['a lock for reading', { mode: 'read' as const }],
    ['a semaphore', { mode: 'read' as const, permits: 2 }],
    ['a lock of a named owner', { owner: 'ann' }],
  ])('grants nothing, however often the key was used since: %s', async (_name, options) => {
    const { proxy, admin, a, b } = await start();
    const key = freshKey();
    const late = proxy.keepNext(isCommand('acquire'));
    await a.locks.withLock(key, options, () => expect(late.isKept).toBe(true));
    await useOften(b, key);
    await late.deliver();
    expect(await holds(admin, key)).toBe(0);
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('grants none of several keys', async () => {
    const { proxy, admin, a, b } = await start();
    const keys = [freshKey('a'), freshKey('b')];
    const late = proxy.keepNext(isCommand('acquireMany'));
    await a.locks.withLock(keys, () => expect(late.isKept).toBe(true));
    for (const key of keys) await useOften(b, key);
    await late.deliver();
    for (const key of keys) expect(await holds(admin, key)).toBe(0);
  });

  it('grants nothing after the call was cancelled', async () => {
    const { proxy, admin, a, b } = await start();
    const key = freshKey();
    const late = keepLast(proxy);
    await expect(a.locks.acquire(key, { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    proxy.refuse(false);
    await eventually(() => a.locker.live.releasing === 0, { timeoutMs: 20_000 });
    await useOften(b, key);
    await late.deliver();
    expect(await holds(admin, key)).toBe(0);
  });

  it('grants nothing when its process died long before', async () => {
    const { proxy, admin, a, b } = await start();
    const key = freshKey();
    const late = keepLast(proxy);
    // The shorter the lease, the sooner a command is too old; a command of this one is given up after 100 ms.
    void a.locks.acquire(key, { leaseMs: 400, waitMs: 25_000 }).catch(() => undefined);
    await eventually(() => late.isKept);
    const keptAt = performance.now();
    await eventually(() => performance.now() - keptAt > 400);
    await late.deliver();
    expect(await holds(admin, key)).toBe(0);
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('is refused after the server lost its data and cannot remember the attempt', async () => {
    const { proxy, admin, a } = await start();
    const key = freshKey();
    const late = proxy.keepNext(isCommand('acquire'));
    await a.locks.withLock(key, { leaseMs: 400 }, () => undefined);
    const releasedAt = performance.now();
    await admin.del(`lock:${key}`);
    await eventually(() => performance.now() - releasedAt > 400);
    await late.deliver();
    expect(await holds(admin, key)).toBe(0);
  });

  it.each([
    ['busy', {}, (locks: LockApp['locks'], key: string) => expect(locks.tryAcquire(key)).resolves.toBeNull()],
    [
      'refused',
      { mode: 'read' as const, owner: 'ann' },
      (locks: LockApp['locks'], key: string) =>
        expect(locks.tryAcquire(key, { owner: 'ann' })).rejects.toMatchObject({ code: 'LOCK_REENTRY' }),
    ],
  ])('grants nothing when its other copy was %s', async (_outcome, options, acquire) => {
    const { proxy, admin, a, b } = await start();
    const key = freshKey();
    const held = await b.locks.acquire(key, options);
    const late = proxy.keepNext(isCommand('acquire'));
    await acquire(a.locks, key);
    expect(late.isKept).toBe(true);
    await eventually(() => a.locker.live.releasing === 0);
    await held.release();
    await late.deliver();
    expect(await holds(admin, key)).toBe(0);
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });
});

describe('a revocation that arrives late', () => {
  it.each([
    ['a lock', {}],
    ['a lock for reading', { mode: 'read' as const }],
  ])('revokes only what the operator saw: %s', async (_name, options) => {
    const { proxy, a, b } = await start();
    const key = freshKey();
    const seen = await b.locks.acquire(key, options);
    const late = keepLast(proxy, 'forceRelease');
    const forcing = a.locks.forceRelease(key);
    forcing.catch(() => undefined);
    await eventually(() => late.isKept);
    await seen.release();
    const next = await b.locks.acquire(key, options);
    await late.deliver();
    expect((await b.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
    await expect(forcing).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(next.held).toBe(true);
    await next.release();
  });

  it('revokes a lock that is handed over while the operator looks', async () => {
    const { proxy, a, b } = await start();
    const key = freshKey();
    const seen = await b.locks.acquire(key);
    const waiting = b.locks.acquire(key, { waitMs: 20_000 });
    await eventually(async () => (await b.locks.inspect(key)).waiters === 1);
    proxy.dropNextReply((text) => {
      if (isCommand('forceRelease')(text)) proxy.delayMs = 2_000;
      return false;
    });
    const forcing = a.locks.forceRelease(key);
    await eventually(() => proxy.delayMs > 0);
    proxy.dropNextReply(() => false);
    await seen.release();
    const next = await waiting;
    proxy.delayMs = 0;
    expect(await forcing).toBe(true);
    await eventually(() => !next.held);
  });
});

describe('a change of the permits that arrives late', () => {
  it('changes nothing after its other copy and a later change', async () => {
    const { proxy, a, b } = await start();
    const key = freshKey();
    const late = proxy.keepNext(isCommand('setPermits'));
    await a.locks.setPermits(key, 5);
    await eventually(() => late.isKept);
    await b.locks.setPermits(key, 2);
    await late.deliver();
    expect((await b.locks.inspect(key)).permits?.allowed).toBe(2);
  });
});
