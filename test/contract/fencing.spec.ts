import { systemClock } from '../../lib/core/clock.js';
import { MemoryLockServer } from '../../lib/testing/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { ownRedis, startAgain } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, openAdmins, startApp } from '../support/apps/lock-app.js';
import { deleteLock } from './support/stores.js';
import { itInMemory, itOnRedis, itOnSingle } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { grantedAt } from '../support/redis/records.js';

/** Takes the lock once; gives the token of the grant. */
async function tokenOf({ locks }: LockApp, key: string, mode: 'read' | 'write' = 'write'): Promise<number> {
  return locks.withLock(key, { mode, waitMs: 25_000 }, ({ fencingToken }) => fencingToken);
}

function expectRising(tokens: readonly number[]): void {
  for (const token of tokens) expect(Number.isSafeInteger(token)).toBe(true);
  expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
}

/** A server whose clock ticks whenever it is looked at, as any may at the worst moment. */
function tickingServer(): MemoryLockServer {
  let ticks = 0;
  return new MemoryLockServer({ clock: { ...systemClock, wallNow: () => Date.now() + (ticks += 1) } });
}

describe('promise 8: fencing', () => {
  afterEach(closeAll);

  it('gives every grant a greater token than all before, whichever instance gets it', async () => {
    const apps = [await startApp(), await startApp()];
    const key = freshKey();
    const tokens: number[] = [];
    const take = (app: LockApp) =>
      app.locks.withLock(key, { waitMs: 25_000 }, ({ fencingToken }) => void tokens.push(fencingToken));
    for (let i = 0; i < 50; i++) await take(apps[i % 2]!);
    await Promise.all(Array.from({ length: 100 }, (_, i) => take(apps[i % 2]!)));
    expect(tokens).toHaveLength(150);
    expectRising(tokens);
  });

  itOnRedis('tokens keep rising after the key was deleted', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const tokens = [await tokenOf(a, key)];
    await deleteLock(key);
    expectRising([...tokens, await tokenOf(b, key)]);
  });

  itOnRedis('tokens keep rising after the key has expired', async () => {
    const [a, b, admins] = [await startApp(), await startApp(), openAdmins()];
    const key = freshKey();
    const tokens = [await tokenOf(a, key), await tokenOf(b, key)];
    // Again, as one of several stores may hear late of a release, and remember it.
    await eventually(async () => {
      await Promise.all(admins.map((admin) => admin.pexpire(`lock:${key}`, 1)));
      return (await Promise.all(admins.map((admin) => admin.exists(`lock:${key}`)))).every((count) => count === 0);
    });
    expectRising([...tokens, await tokenOf(b, key)]);
  });

  itOnSingle('tokens keep rising after FLUSHALL', async () => {
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

  itOnSingle('tokens keep rising after a restart of Redis that lost all data', async () => {
    const server = await ownRedis();
    const [a, b] = [await startApp({ connection: server.url }), await startApp({ connection: server.url })];
    const key = freshKey();
    const tokens = [await tokenOf(a, key), await tokenOf(b, key)];
    await server.kill();
    await startAgain(server);
    tokens.push(await tokenOf(b, key), await tokenOf(a, key));
    expectRising(tokens);
  });

  itInMemory('gives a waiter the token that the lock has, whenever the clock ticks', async () => {
    const server = tickingServer();
    const [a, b] = [await startApp({}, {}, server), await startApp({}, {}, server)];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = b.locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting(a, key);
    await held.release();
    const lock = await waiting;
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: lock.fencingToken }]);
    await lock.extend(60_000);
  });

  itInMemory('derives the token from the time of the grant, whenever the clock ticks', async () => {
    const { locks } = await startApp({}, {}, tickingServer());
    const times: [number | undefined, number][] = [];
    locks.events.on('acquired', (event) => times.push([event.serverTimeMs, grantedAt(event)]));
    await locks.withLock(freshKey(), () => undefined);
    expect(times[0]![0]).toBe(times[0]![1]);
  });
});
