import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { PATIENT, startCallers } from '../../support/processes/callers.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { deadlineOf, grantedAt } from '../../support/redis/records.js';
import { eventually } from '../../support/waiting/eventually.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { startChildApp } from '../../support/processes/child-app.js';

describe('a process that ends, or stops, in its turn', () => {
  afterEach(closeAll);

  const SHORT = { leaseMs: 1_500, waitMs: 60_000 };

  it('does not keep the others waiting when it is killed', async () => {
    const [{ locks }, key] = [await startApp(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, rounds: 1, lock: SHORT, hangAt: 3 });
    child.send('begin');
    await eventually(() => said.hangs);
    const waiting = locks.acquire(key, PATIENT);
    await untilWaiting({ locks }, key, 2);
    child.kill('SIGKILL');
    await eventually(() => child.signalCode);
    const lock = await waiting;
    expect(lock.fencingToken).toBeGreaterThan(said.hangs!);
    expect(await locks.inspect(key)).toMatchObject({ holders: [{ fencingToken: lock.fencingToken }] });
    await lock.release();
  }, 60_000);

  it('is told of the loss when it goes on, and hands nothing on that it has lost', async () => {
    const [app, admin, key] = [await startApp(), openAdmin(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, rounds: 1, lock: SHORT, stopAt: 3 });
    child.send('begin');
    await eventually(() => said.stops);
    const deadline = await deadlineOf([admin], key);
    const lock = await app.locks.acquire(key, PATIENT);
    expect(grantedAt(lock)).toBeGreaterThanOrEqual(deadline);
    child.kill('SIGCONT');
    // One of its calls waits in Redis again, and the others behind that one.
    await untilWaiting(app, key, 1);
    expect([lock.held, said.grants]).toEqual([true, undefined]);
    await lock.release();
    await eventually(() => said.grants);
    expect(said.failures).toEqual(['LOCK_LOST']);
    const tokens = said.grants!.map(({ token }) => token);
    expect(tokens.length).toBe(6);
    expect(tokens.filter((token) => token < lock.fencingToken)).toEqual(tokens.slice(0, 3));
    expect(said.grants![3]).toMatchObject({ local: false });
  }, 60_000);
});

describe('a process that is cut off from Redis in its turn', () => {
  afterEach(closeAll);

  it('is told of the loss, hands nothing on, and asks again when Redis is back', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp({ connection: url })];
    const [key, short] = [freshKey(), { leaseMs: 1_500, waitMs: 60_000 }];
    const local: boolean[] = [];
    a.locks.events.on('acquired', (event) => void local.push(event.local));
    const held = await eventually(async () => {
      const first = await a.locks.acquire(key, short);
      const next = a.locks.acquire(key, short);
      await first.release();
      const second = await next;
      // A stalled machine may need another try.
      if (local.at(-1)) return second;
      await second.release();
      return null;
    });
    disconnect(proxy);
    const { signal } = held;
    const others = [0, 1].map(() => a.locks.acquire(key, short));
    const outcomes = others.map(outcomeOf);
    const deadline = await deadlineOf([admin], key);
    const lock = await b.locks.acquire(key, PATIENT);
    expect(grantedAt(lock)).toBeGreaterThanOrEqual(deadline);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });
    void held.release();
    proxy.refuse(false);
    await untilWaiting(b, key, 1);
    expect([lock.held, outcomes]).toEqual([true, [{}, {}]]);
    await lock.release();
    for (const other of others) {
      const { fencingToken } = await other;
      expect(fencingToken).toBeGreaterThan(lock.fencingToken);
      await (await other).release();
    }
  }, 60_000);
});

describe('a waiter that is stopped', () => {
  afterEach(closeAll);

  it('lets the others pass, and waits again when it goes on', async () => {
    const [a, b, stopped] = [await startApp(), await startApp(), await startChildApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const first = stopped.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key);
    const second = b.locks.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key, 2);
    stopped.process.kill('SIGSTOP');
    await held.release();
    const next = await second;
    stopped.process.kill('SIGCONT');
    // What was pushed to it is over: it asks, and learns that another holds the lock.
    await untilWaiting(a, key);
    expect([next.held, await stopped.isHeld()]).toEqual([true, false]);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
    await next.release();
    expect(await first).toBeGreaterThan(next.fencingToken);
    expect(await stopped.isHeld()).toBe(true);
    await stopped.release();
    await eventually(async () => !(await a.locks.isLocked(key)));
  }, 60_000);
});
