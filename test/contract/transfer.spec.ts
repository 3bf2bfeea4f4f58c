import { type Lock, LockConfigurationError, LockLostError, type LockOptions, LockStoreError } from '../../lib/index.js';
import { isCommand, loadScripts, proxyTo } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { itOnSingle, itWithPermits, topology } from '../support/topologies/topology.js';
import { rejection } from '../support/waiting/rejection.js';
import { untilFree } from '../support/waiting/waiters.js';

const PATIENT = { waitMs: 25_000 };
const LONG = { leaseMs: 60_000 };

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

describe('a lock that changes hands', () => {
  afterEach(closeAll);

  it.each<[string, LockOptions]>([
    ['for writing', {}],
    ['for reading', { mode: 'read' }],
    ['of a named owner', { owner: 'ann' }],
  ])('%s continues in another app with the same token, and is released there', async (_, options) => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const first = await a.locks.acquire(key, { ...LONG, ...options });
    const text = await first.transfer();
    expect([first.held, await first.release(), a.locks.activity.held]).toEqual([false, false, 0]);
    expect(await b.locks.isLocked(key)).toBe(true);
    const lock = await b.locks.adopt(text);
    const { fencingToken, mode } = first;
    expect(lock).toMatchObject({ key, mode, fencingToken, held: true, ...(options.owner && { owner: options.owner }) });
    expect(b.locks.activity.held).toBe(1);
    const { holders } = await a.locks.inspect(key);
    expect(holders).toMatchObject([{ owner: lock.owner, fencingToken, pid: process.pid }]);
    expect(holders[0]!.attempt).not.toBe(text);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    await lock.extend(90_000);
    expect(await lock.release()).toBe(true);
    await untilFree(a, key);
    expect((await a.locks.acquire(key, PATIENT)).fencingToken).toBeGreaterThan(fencingToken);
  });

  itWithPermits('keeps its permit of a semaphore', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const permit: LockOptions = { ...LONG, mode: 'read', permits: 2 };
    const [first, other] = [await a.locks.acquire(key, permit), await b.locks.acquire(key, permit)];
    const lock = await b.locks.adopt(await first.transfer());
    expect(await a.locks.tryAcquire(key, permit)).toBeNull();
    await lock.release();
    expect(await a.locks.tryAcquire(key, permit)).not.toBeNull();
    expect(other.held).toBe(true);
  });

  it('has several keys, in one slot or in several', async () => {
    const [a, b] = await startTwo();
    const keys = [freshKey(), freshKey(), freshKey()];
    const first = await a.locks.acquire(keys, LONG);
    const lock = await b.locks.adopt(await first.transfer());
    expect([lock.keys, lock.fencingTokens, lock.held]).toEqual([keys, first.fencingTokens, true]);
    for (const key of keys) expect(await a.locks.isLocked(key)).toBe(true);
    expect(await lock.release()).toBe(true);
    for (const key of keys) await untilFree(a, key);
  });

  it('is adopted once, however many try', async () => {
    const [a, b] = await startTwo();
    const key = [freshKey(), freshKey()];
    const text = await (await a.locks.acquire(key, LONG)).transfer();
    const tries = await Promise.allSettled([a, b, a, b].map(({ locks }) => locks.adopt(text)));
    const granted = tries.filter(({ status }) => status === 'fulfilled');
    // On a quorum, the votes may be split; then neither has it, as after a failure.
    if (topology.supports.queue) expect(granted).toHaveLength(1);
    else expect(granted.length).toBeLessThanOrEqual(1);
    for (const one of tries) {
      if (one.status === 'rejected' && topology.supports.queue) expect(one.reason).toBeInstanceOf(LockLostError);
    }
    const late = await rejection<LockLostError>(b.locks.adopt(text));
    expect(late.code).toBe('LOCK_LOST');
    // A node of a quorum may have used up further tokens since.
    expect(topology.supports.oneRecord ? ['expired'] : ['expired', 'taken']).toContain(late.reason);
    const [winner] = granted as [PromiseFulfilledResult<Lock>?];
    if (!winner) return;
    expect(winner.value.held).toBe(true);
    expect(await winner.value.release()).toBe(true);
  });

  it('that is not adopted is granted to the next one when its lease ends', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const text = await (await a.locks.acquire(key, { leaseMs: 500 })).transfer();
    const next = await b.locks.acquire(key, PATIENT);
    expect(await rejection(b.locks.adopt(text))).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(next.held).toBe(true);
  });

  it('outlives the shutdown of the app that had it', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const text = await (await a.locks.acquire(key, LONG)).transfer();
    await a.close();
    const lock = await b.locks.adopt(text);
    expect(await lock.release()).toBe(true);
  });

  it('is refused by an app with another prefix, and for another text', async () => {
    const [a, b] = [await startApp(), await startApp({ keyPrefix: 'lock:other:' })];
    const text = await (await a.locks.acquire(freshKey(), LONG)).transfer();
    const error = await rejection(b.locks.adopt(text));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`keyPrefix`');
    expect(await rejection(a.locks.adopt('a text'))).toBeInstanceOf(LockConfigurationError);
    expect(await rejection(a.locks.adopt(text, { leaseMs: 1 }))).toBeInstanceOf(LockConfigurationError);
    expect((await a.locks.adopt(text)).held).toBe(true);
  });

  it('is not one of `withLock`', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    await locks.withLock(key, async (lock) => {
      expect(await rejection(lock.transfer())).toBeInstanceOf(LockConfigurationError);
      expect(lock.held).toBe(true);
    });
    await untilFree({ locks }, key);
  });

  itOnSingle('is adopted once when the reply is lost, and the command is sent again', async () => {
    const proxy = await proxyTo();
    const [a, b] = [await startApp(), await startApp({ connection: proxy.url })];
    const key = freshKey();
    const text = await (await a.locks.acquire(key, LONG)).transfer();
    await b.locks.isLocked(key);
    await loadScripts(openAdmin());
    proxy.dropNextReply(isCommand('adopt'));
    const lock = await b.locks.adopt(text);
    expect(proxy.droppedReplies).toBe(1);
    expect(await lock.release()).toBe(true);
    await untilFree(a, key);
  });

  itOnSingle('can still be adopted by another app when one has no answer from Redis', async () => {
    const proxy = await proxyTo();
    const [a, b] = [await startApp(), await startApp({ connection: proxy.url })];
    const key = freshKey();
    const text = await (await a.locks.acquire(key, { leaseMs: 2_000 })).transfer({ leaseMs: 60_000 });
    await b.locks.isLocked(key);
    proxy.blackhole(true);
    expect(await rejection(b.locks.adopt(text))).toBeInstanceOf(LockStoreError);
    expect((await a.locks.adopt(text)).held).toBe(true);
  });
});
