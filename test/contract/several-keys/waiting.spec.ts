import { LockWaitTimeoutError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { untilQueued, untilQueuedAtFirst, waiters } from '../support/queued.js';
import { IN_ONE_SLOT, itWithOneMoment, itWithOneScript, itWithQueue } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { expectNothingAlive } from '../../support/waiting/waiters.js';
import { gate } from '../../support/waiting/gate.js';

const PATIENT = { waitMs: 25_000 };

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

/** Some of these keys in any order, at least two. */
function someOf(keys: readonly string[]): string[] {
  const shuffled = [...keys];
  for (let i = shuffled.length - 1; i > 0; i--) {
    const other = Math.floor(Math.random() * (i + 1));
    [shuffled[i], shuffled[other]] = [shuffled[other]!, shuffled[i]!];
  }
  return shuffled.slice(0, 2 + Math.floor(Math.random() * (keys.length - 1)));
}

describe('waiting for several keys', () => {
  afterEach(closeAll);

  itWithOneScript('holds none of them until all are free', async () => {
    const [a, b] = await startTwo();
    const [one, two] = [freshKey(), freshKey()];
    const busy = await a.locks.acquire(two);
    const both = b.locks.acquire([one, two], PATIENT);
    await untilQueued(a, [two]);
    expect((await a.locks.inspect(one)).holders).toEqual([]);
    expect((await a.locks.inspect(two)).holders).toHaveLength(1);
    await busy.release();
    const lock = await both;
    expect(lock.fencingTokens[1]).toBeGreaterThan(busy.fencingToken);
    expect((await a.locks.inspect(one)).holders).toHaveLength(1);
  });

  it('ends when the last holder has released, in whatever order they do', async () => {
    const [a, b] = await startTwo();
    for (const order of [[0, 1, 2], [2, 1, 0], [1, 2, 0]]) {
      const keys = [freshKey(), freshKey(), freshKey()];
      const held = await Promise.all(keys.map((key) => a.locks.acquire(key)));
      const waiting = b.locks.acquire(keys, PATIENT);
      let granted = false;
      void waiting.then(() => (granted = true));
      await untilQueuedAtFirst(a, keys);
      for (const at of order) {
        expect(granted).toBe(false);
        await held[at]!.release();
      }
      const lock = await waiting;
      lock.fencingTokens.forEach((token, i) => expect(token).toBeGreaterThan(held[i]!.fencingToken));
      await lock.release();
    } // prettier-ignore
  });

  itWithOneMoment('does not block a holder of an earlier key that requests a later one', async () => {
    const [a, b] = await startTwo();
    const [first, free, last] = [freshKey('a'), freshKey('b'), freshKey('c')];
    await a.locks.withLock(first, async () => {
      const list = b.locks.acquire([last, free, first], PATIENT);
      await untilQueued(a, [first]);
      await a.locks.withLock(last, { waitMs: 0 }, () => undefined);
      await a.locks.withLock([last, free], { waitMs: 0 }, () => undefined);
      void list.then((lock) => lock.release());
    });
    await (await a.locks.acquire([first, free, last], PATIENT)).release();
  });

  itWithQueue('is not overtaken forever by calls for single keys', async () => {
    const [a, b] = await startTwo();
    const [keys, stop] = [[freshKey(), freshKey()], new AbortController()];
    let single = 0;
    const use = async (key: string) => {
      while (!stop.signal.aborted) {
        const lock = await a.locks.acquire(key, PATIENT);
        single += 1;
        await new Promise(setImmediate);
        await lock.release();
      }
    };
    const lanes = [...keys, ...keys].map(use);
    await eventually(() => single > 20);
    for (let round = 0; round < 5; round++) await (await b.locks.acquire(keys, PATIENT)).release();
    const seen = single;
    await eventually(() => single > seen + 20);
    stop.abort();
    await Promise.all(lanes);
  });

  it('leaves all queues at once when it is aborted or times out', async () => {
    const [a, b] = await startTwo();
    const [keys, abort, reason] = [[freshKey(), freshKey(), freshKey()], new AbortController(), new Error('enough')];
    const busy = await a.locks.acquire(keys[1]!);
    const aborted = rejection(b.locks.acquire(keys, { waitMs: Infinity, signal: abort.signal }));
    await untilQueued(a, [keys[1]!]);
    const behind = keys.filter((key) => key !== keys[1]).map((key) => a.locks.acquire(key, PATIENT));
    abort.abort(reason);
    expect(await aborted).toBe(reason);
    for (const lock of await Promise.all(behind)) await lock.release();
    const timedOut = rejection(b.locks.acquire(keys, { waitMs: 100 }));
    expect(await timedOut).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    await eventually(async () => (await waiters(a, keys)).every((count) => count === 0), { timeoutMs: 5_000 });
    await busy.release();
    expect(await a.locks.tryAcquire(keys)).not.toBeNull();
  });

  it('rejects with an error that names the keys in the order given, as the events do', async () => {
    const [a, b] = [await startApp(IN_ONE_SLOT), await startApp(IN_ONE_SLOT)];
    const keys = [freshKey('b'), freshKey('c'), freshKey('a')];
    const told: string[] = [];
    b.locks.events.on('waiting', ({ key }) => told.push(key)).on('timedOut', ({ key }) => told.push(key));
    b.locks.events.on('acquired', ({ key }) => told.push(key));
    const name = keys.join(', ');
    const busy = await a.locks.acquire(keys[2]!);
    expect(await rejection(b.locks.acquire(keys, { waitMs: 0 }))).toMatchObject({ code: 'LOCK_BUSY', key: name });
    expect(await rejection(b.locks.acquire(keys, { waitMs: 50 }))).toMatchObject({ key: name });
    await busy.release();
    await b.locks.acquire(keys);
    expect(told).toEqual([name, name, name]);
  });

  it('does not depend on the order in which the keys are given: no deadlock', async () => {
    const apps = await startTwo();
    const keys = [freshKey(), freshKey(), freshKey(), freshKey()];
    const inside = new Set<string>();
    const lane = async ({ locks }: LockApp) => {
      for (let round = 0; round < 25; round++) {
        const named = someOf(keys);
        await locks.withLock(named, { waitMs: 20_000 }, async (lock) => {
          expect(lock.keys).toEqual(named);
          for (const key of named) expect(inside.has(key)).toBe(false);
          for (const key of named) inside.add(key);
          await new Promise(setImmediate);
          for (const key of named) inside.delete(key);
        });
      }
    };
    await Promise.all([...apps, ...apps, ...apps].map(lane));
    await expectNothingAlive(apps);
    expect(await waiters(apps[0], keys)).toEqual([0, 0, 0, 0]);
    expect(await apps[0].locks.tryAcquire(keys)).not.toBeNull();
  });
});

describe('two chains of calls that lock two keys in opposite order, one inside the other', () => {
  afterEach(closeAll);

  it('end with a LockWaitTimeoutError for one of them at least, and leave nothing locked', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const keys = [freshKey('a'), freshKey('b')];
    const both = gate();
    let inside = 0;
    const chain = ({ locks }: LockApp, [outer, inner]: readonly string[]) =>
      locks.withLock(outer!, async () => {
        if (++inside === 2) both.open();
        await both.opened;
        return locks.withLock(inner!, { waitMs: 300 }, () => 'done');
      });
    const chains = [chain(a, keys), chain(b, keys.toReversed())];
    const outcomes = await Promise.allSettled(chains);
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toBeInstanceOf(LockWaitTimeoutError);
    for (const key of keys) expect(await a.locks.isLocked(key)).toBe(false);
    const lock = await a.locks.acquire(keys, { waitMs: 20_000 });
    expect(lock.held).toBe(true);
  });
});
