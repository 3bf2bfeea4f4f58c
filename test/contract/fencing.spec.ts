import { eventually } from '../support/eventually.js';
import { ownRedis, startAgain } from '../support/faults.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../support/lock-app.js';
import { deleteLock, onEveryStore } from '../support/stores.js';
import { itOnSingle } from '../support/topology.js';

/** Takes the lock once; gives the token of the grant. */
async function tokenOf({ locks }: LockApp, key: string, mode: 'read' | 'write' = 'write'): Promise<number> {
  return locks.withLock(key, { mode, waitMs: 25_000 }, ({ fencingToken }) => fencingToken);
}

function expectRising(tokens: readonly number[]): void {
  for (const token of tokens) expect(Number.isSafeInteger(token)).toBe(true);
  expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
}

describe('promise 8: fencing', () => {
  afterEach(closeAll);

  it('gives every grant a greater token than all before, whichever instance is granted', async () => {
    const apps = [await startApp(), await startApp()];
    const key = freshKey();
    const tokens: number[] = [];
    const take = (app: LockApp) => app.locks.withLock(key, ({ fencingToken }) => void tokens.push(fencingToken));
    for (let i = 0; i < 50; i++) await take(apps[i % 2]!);
    await Promise.all(Array.from({ length: 100 }, (_, i) => take(apps[i % 2]!)));
    expect(tokens).toHaveLength(150);
    expectRising(tokens);
  });

  it('gives readers tokens in the order of their grants, too', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const tokens: number[] = [];
    for (let i = 0; i < 10; i++) {
      tokens.push(await tokenOf(a, key, 'read'), await tokenOf(b, key), await tokenOf(b, key, 'read'));
    }
    expectRising(tokens);
  });

  it('goes on rising after a lease has expired', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const expired = await a.locks.acquire(key, { leaseMs: 60, renew: false });
    expectRising([expired.fencingToken, await tokenOf(b, key), await tokenOf(a, key)]);
  });

  it('goes on rising after the key was deleted, and after it was forgotten', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const tokens = [await tokenOf(a, key)];
    await deleteLock(key);
    tokens.push(await tokenOf(b, key));
    await onEveryStore((store) => store.pexpire(`lock:${key}`, 1));
    await eventually(async () => (await admin.exists(`lock:${key}`)) === 0);
    expectRising([...tokens, await tokenOf(b, key)]);
  });

  itOnSingle('goes on rising after FLUSHALL', async () => {
    const { admin, url } = await ownRedis();
    const a = await startApp({ connection: url });
    const key = freshKey();
    const tokens: number[] = [];
    for (let i = 0; i < 5; i++) {
      tokens.push(await tokenOf(a, key));
      await admin.flushall();
    }
    expectRising(tokens);
  });

  itOnSingle('goes on rising after a restart of Redis that lost all data', async () => {
    const server = await ownRedis();
    const [a, b] = [await startApp({ connection: server.url }), await startApp({ connection: server.url })];
    const key = freshKey();
    const tokens = [await tokenOf(a, key), await tokenOf(b, key)];
    await server.kill();
    await startAgain(server);
    tokens.push(await tokenOf(b, key), await tokenOf(a, key));
    expectRising(tokens);
  });

  it('keeps the token of a hold through renewals, and shows it in inspect', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const lock = await locks.acquire(key);
    const token = lock.fencingToken;
    await lock.extend(60_000);
    const state = await locks.inspect(key);
    expect(lock.fencingToken).toBe(token);
    expect(state).toMatchObject({ fencingToken: token, holders: [{ fencingToken: token }] });
    await lock.release();
    expect((await locks.inspect(key)).fencingToken).toBe(token);
  });
});
