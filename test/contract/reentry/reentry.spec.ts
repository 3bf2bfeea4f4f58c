import { setImmediate as turn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { type Redis } from 'ioredis';
import {
  LockBusyError,
  type LockOptions,
  LockReentryError,
  Locked,
  currentLock,
  LockWaitTimeoutError,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { loadScripts, ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itOnSingle } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { AsyncResource } from 'node:async_hooks';

/** How often a server has run these commands; all but INFO, which counts them, when none is named. */
async function commands(admin: Redis, name?: string): Promise<number> {
  const stats = (await admin.info('commandstats')).matchAll(/cmdstat_([^:]+):calls=(\d+)/g);
  const counted = [...stats].filter((stat) => (name === undefined ? stat[1] !== 'info' : stat[1] === name));
  return counted.reduce((sum, [, , calls]) => sum + Number(calls), 0);
}

/** An instance on a separate Redis, without any activity but that of the test. */
async function startAlone() {
  const { admin, url } = await ownRedis();
  await loadScripts(admin);
  const app = await startApp({ connection: url, leaseMs: 600_000 });
  await app.locks.withLock('warm-up', () => undefined);
  await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === 1);
  return { ...app, admin };
}

@Injectable()
class Stock {
  @Locked('stock:<0>')
  async count(id: string): Promise<number[]> {
    const { fencingToken } = currentLock(`stock:${id}`);
    return [fencingToken, await this.recount(id)];
  }

  @Locked('stock:<0>')
  async recount(id: string): Promise<number> {
    return currentLock(`stock:${id}`).fencingToken;
  }

  @Locked('stock:<0>')
  async strictly(id: string): Promise<string> {
    return this.alone(id);
  }

  @Locked('stock:<0>', { reentrant: false, waitMs: Infinity })
  async alone(_id: string): Promise<string> {
    return 'alone';
  }
}

describe('reentry: a nested call', () => {
  afterEach(closeAll);

  itOnSingle('sends no command to Redis, however deep, and has the fencing token of the hold', async () => {
    const { locks, admin } = await startAlone();
    await locks.withLock('key', async ({ fencingToken }) => {
      const before = await commands(admin);
      const inner = await locks.withLock('key', (second) =>
        locks.withLock('key', { mode: 'read' }, (third) => [second.fencingToken, third.fencingToken]),
      );
      expect(await commands(admin)).toBe(before);
      expect(inner).toEqual([fencingToken, fencingToken]);
    });
    expect(await locks.isLocked('key')).toBe(false);
  });

  it('enters the hold of a decorated method that has the same key', async () => {
    const { app } = await startApp({}, { providers: [Stock] });
    const [outer, inner] = await app.get(Stock).count(freshKey());
    expect(inner).toBe(outer);
  });

  itOnSingle('acquires only the keys that the chain of calls does not hold, with one command', async () => {
    const { locks, admin } = await startAlone();
    await locks.withLock('a', async ({ fencingToken }) => {
      const before = await commands(admin, 'evalsha');
      await locks.withLock(['b', 'a'], async (both) => {
        expect(await commands(admin, 'evalsha')).toBe(before + 1);
        const { holders } = await locks.inspect('b');
        expect(both.keys).toEqual(['b', 'a']);
        expect(both.fencingTokens).toEqual([holders[0]!.fencingToken, fencingToken]);
        expect((await locks.inspect('a')).holders).toHaveLength(1);
      });
      expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([true, false]);
    });
    expect(await locks.isLocked('a')).toBe(false);
  });
});

describe('reentry: siblings under one hold', () => {
  afterEach(closeAll);

  it('run one after the other in the order of their calls, also three levels deep', async () => {
    const { locks } = await startApp();
    const [key, order, places] = [freshKey(), [] as string[], [1, 2, 3]];
    const inside = [0, 0, 0, 0];
    const level = (depth: number, name: string): Promise<void> =>
      locks.withLock(key, async () => {
        inside[depth]! += 1;
        expect(inside[depth]).toBe(1);
        await turn();
        if (depth < 3) await Promise.all(places.map((place) => level(depth + 1, name + place)));
        else order.push(name);
        await turn();
        inside[depth]! -= 1;
      });
    await level(0, '');
    expect(order).toHaveLength(27);
    expect(order).toEqual(order.toSorted());
    expect(await locks.isLocked(key)).toBe(false);
  });

  it('overlap when they read, and keep a writer apart from readers', async () => {
    const { locks } = await startApp();
    const [key, log] = [freshKey(), [] as string[]];
    let reading = 0;
    const read = () =>
      locks.withLock(key, { mode: 'read' }, async () => {
        reading += 1;
        await eventually(() => reading === 3);
        log.push('read');
      });
    const write = () => locks.withLock(key, async () => void log.push('write'));
    await locks.withLock(key, () => Promise.all([read(), read(), read(), write()]));
    expect(log).toEqual(['read', 'read', 'read', 'write']);
  });
});

describe('reentry: work that is not awaited', () => {
  afterEach(closeAll);

  it('acquires the lock itself when the hold has ended, and waits for the other holder', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [key, over] = [freshKey(), gate()];
    let late!: Promise<number>;
    await a.locks.withLock(key, () => {
      late = over.opened.then(() => a.locks.withLock(key, ({ fencingToken }) => fencingToken));
    });
    const other = await b.locks.acquire(key);
    over.open();
    await untilWaiting(b, key);
    await other.release();
    expect(await late).toBeGreaterThan(other.fencingToken);
  });
});

describe('reentry: a lock that is released while nested calls for it and another key wait', () => {
  afterEach(closeAll);

  it('is free at once, so that no circle of calls that take their keys in order waits for it', async () => {
    const { locks } = await startApp({ waitMs: 20_000 });
    const id = freshKey('');
    const [c, d, e] = ['c', 'd', 'e'].map((name) => name + id) as [string, string, string];
    const [first, later] = [gate(), gate()];
    await locks.withLock([c, d], async () => {
      const insideC = locks.withLock(c, async () => {
        await later.opened;
        return locks.withLock(d, () => 'c, then d');
      });
      const insideD = locks.withLock(d, () => first.opened);
      const waiting = await locks.withLock(e, async (outer) => {
        const both = [locks.withLock([d, e], () => 'd and e'), locks.withLock([c, e], () => 'c and e')];
        await turn();
        expect(await outer.release()).toBe(true);
        first.open();
        await insideD;
        await turn();
        later.open();
        return { both };
      });
      expect(await Promise.all([insideC, ...waiting.both])).toEqual(['c, then d', 'd and e', 'c and e']);
    });
  });
});

describe('reentry: a call that would wait for itself', () => {
  afterEach(closeAll);

  it('is refused at once when it writes under a read', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    await locks.withLock(key, { mode: 'read' }, async (outer) => {
      const upgrade = rejection(locks.withLock(key, { waitMs: Infinity }, () => 'written'));
      expect(await upgrade).toBeInstanceOf(LockReentryError);
      expect(outer.held).toBe(true);
      expect(await locks.inspect(key)).toMatchObject({ mode: 'read', waiters: 0 });
    });
    expect(await locks.isLocked(key)).toBe(false);
  });

  it('is refused at once with reentrant: false, and runs when it is not nested', async () => {
    const { app, locks } = await startApp({}, { providers: [Stock] });
    const [stock, id] = [app.get(Stock), freshKey()];
    const key = `stock:${id}`;
    expect(await rejection(stock.strictly(id))).toMatchObject({ code: 'LOCK_REENTRY', key });
    expect(await stock.alone(id)).toBe('alone');
    const strict: LockOptions = { reentrant: false, waitMs: Infinity };
    await locks.withLock(key, async () => {
      const nested = [
        locks.withLock([freshKey(), key], strict, () => 'inside'),
        locks.acquire(key, strict),
        locks.tryAcquire(key, { reentrant: false }),
      ];
      for (const call of nested) expect(await rejection(call)).toMatchObject({ code: 'LOCK_REENTRY', key });
      expect(await locks.withLock(freshKey(), strict, () => 'another key')).toBe('another key');
    });
    expect(await locks.isLocked(key)).toBe(false);
  });
});

describe('reentry: two modules', () => {
  afterEach(closeAll);

  it('exclude each other on one key, even when one calls the other', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const nested = a.locks.withLock(key, () => b.locks.withLock(key, { waitMs: 0 }, () => 'inside'));
    expect(await rejection(nested)).toBeInstanceOf(LockBusyError);
  });
});

describe('a call whose context was lost', () => {
  afterEach(closeAll);

  it('waits for its own lock until its wait is over, and learns that its process holds it', async () => {
    const { locks } = await startApp();
    const [key, outside] = [freshKey(), new AsyncResource('outside')];
    await locks.withLock(key, async (lock) => {
      const call = outside.runInAsyncScope(() => rejection(locks.acquire(key, { waitMs: 300 })));
      const error = await call;
      expect(error).toBeInstanceOf(LockWaitTimeoutError);
      expect(error.message).toContain(`:${process.pid}`);
      expect(lock.held).toBe(true);
    });
  });
});
