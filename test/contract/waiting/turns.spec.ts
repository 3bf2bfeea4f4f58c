import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Lock, type LockEventMap, type LockOptions } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { deleteLock, openStore } from '../support/stores.js';
import { itWithQueue, topology } from '../../support/topologies/topology.js';
import { expectNothingAlive, untilFree, untilWaiting } from '../../support/waiting/waiters.js';

const PATIENT = { waitMs: 25_000 };

const startThree = async (): Promise<LockApp[]> => [await startApp(), await startApp(), await startApp()];

async function expectNothingLeft(apps: readonly LockApp[], key: string): Promise<void> {
  await expectNothingAlive(apps);
  expect(await apps[0]!.locks.inspect(key)).toMatchObject({ mode: 'free', waiters: 0, holders: [] });
}

/** The events of one key in one app. */
function acquiredOf({ locks }: LockApp, key: string): LockEventMap['acquired'][] {
  const events: LockEventMap['acquired'][] = [];
  locks.events.on('acquired', (event) => void (event.key === key && events.push(event)));
  return events;
}

/** A lock that the first call has handed to the second one; a stalled machine may need several tries. */
async function handedOn(
  app: LockApp,
  key: string,
  options: LockOptions,
  ofNext = options,
): Promise<readonly [Lock, Lock]> {
  const events = acquiredOf(app, key);
  return eventually(async () => {
    const first = await app.locks.acquire(key, options);
    const next = app.locks.acquire(key, ofNext);
    await first.release();
    const second = await next;
    if (events.at(-1)!.local) return [first, second] as const;
    await second.release();
    return null;
  });
}

afterEach(closeAll);

describe('many callers of several processes for one key', () => {
  /** Without a queue, they ask at random times. */
  const [CALLERS, ROUNDS] = topology.supports.queue ? [12, 8] : [3, 2];

  it('hold the lock one at a time, are all served, and have tokens that rise', async () => {
    const apps = await startThree();
    const key = freshKey();
    const tokens: number[] = [];
    const served = new Map<string, number>();
    let inside = 0;
    const work = async (name: string, { fencingToken, held }: Lock): Promise<void> => {
      inside += 1;
      expect([inside, held]).toEqual([1, true]);
      tokens.push(fencingToken);
      served.set(name, (served.get(name) ?? 0) + 1);
      if (fencingToken % 3 > 0) await nextTurn();
      inside -= 1;
    };
    const lane = async ({ locks }: LockApp, name: string): Promise<void> => {
      for (let round = 0; round < ROUNDS; round++) {
        const lock = await locks.acquire(key, PATIENT);
        await work(name, lock);
        await lock.release();
      }
    };
    const lanes = apps.flatMap((app, a) => Array.from({ length: CALLERS }, (_, i) => lane(app, `${a}.${i}`)));
    await Promise.all(lanes);
    expect([...served.values()]).toEqual(lanes.map(() => ROUNDS));
    expect(tokens).toEqual(tokens.toSorted((one, two) => one - two));
    expect(new Set(tokens).size).toBe(tokens.length);
    await expectNothingLeft(apps, key);
  });

  itWithQueue('do not keep a single caller of another process waiting for more than two turns', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const [events, waits] = [acquiredOf(a, key), [] as number[]];
    const load = { isOver: false };
    const lane = async (): Promise<void> => {
      while (!load.isOver) await a.locks.withLock(key, PATIENT, () => nextTurn());
    };
    const lanes = Array.from({ length: 8 }, lane);
    for (let round = 0; round < 10; round++) {
      const before = events.length;
      await b.locks.withLock(key, PATIENT, () => void waits.push(events.length - before));
    }
    load.isOver = true;
    await Promise.all(lanes);
    // The turn that was under way, and one whose call waited before.
    expect(Math.max(...waits)).toBeLessThanOrEqual(128);
    expect(events.some(({ local }) => local)).toBe(true);
    await expectNothingLeft([a, b], key);
  });
});

describe('the callers of one process', () => {
  itWithQueue('are served first in, first out, whichever other calls wait', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const order: string[] = [];
    const held = await a.locks.acquire(key, PATIENT);
    const one = (app: LockApp, name: string): Promise<void> =>
      app.locks.withLock(key, PATIENT, () => void order.push(name));
    const all = Array.from({ length: 30 }, (_, i) => [one(a, `a${i}`), one(b, `b${i}`)]).flat();
    await untilWaiting(a, key, 31);
    await held.release();
    await Promise.all(all);
    for (const name of ['a', 'b']) {
      const mine = order.filter((entry) => entry.startsWith(name));
      expect(mine).toEqual(Array.from({ length: 30 }, (_, i) => `${name}${i}`));
    }
    await expectNothingLeft([a, b], key);
  });

  itWithQueue(
    'have one place in the queue; `inspect` counts those that wait behind it in its own process',
    async () => {
      const [a, b, store] = [await startApp(), await startApp(), openStore()];
      const key = freshKey();
      const held = await a.locks.acquire(key, PATIENT);
      const waiting = [a, a, a, b].map(({ locks }) => locks.withLock(key, PATIENT, () => undefined));
      await untilWaiting(a, key, 4);
      await untilWaiting(b, key, 2);
      expect(await store.queued(key)).toBe(2);
      await held.release();
      await Promise.all(waiting);
      await expectNothingLeft([a, b], key);
    },
  );
});

describe('a lock that is handed on in a process', () => {
  const SHORT = { ...PATIENT, leaseMs: 3_000 };

  itWithQueue('is reported to its present holder when it is revoked, and to no holder before it', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const [first, second] = await handedOn(a, key, SHORT);
    const third = a.locks.acquire(key, SHORT);
    const signals = [first.signal, second.signal];
    expect(await b.locks.forceRelease(key)).toBe(true);
    await eventually(() => signals[1]!.aborted);
    expect(signals[1]!.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    const next = await third;
    expect([next.held, next.fencingToken > second.fencingToken, signals[0]!.aborted]).toEqual([true, true, false]);
    expect(await second.release()).toBe(false);
    expect(next.held).toBe(true);
    await next.release();
    await expectNothingLeft([a, b], key);
  });

  itWithQueue('is reported as lost by its last release at the latest, to each call that had it', async () => {
    const a = await startApp();
    const key = freshKey();
    await (await handedOn(a, key, PATIENT))[1].release();
    await untilFree(a, key);
    const lost: LockEventMap['lost'][] = [];
    a.locks.events.on('lost', (event) => lost.push(event));
    const acquired = acquiredOf(a, key);
    const first = await a.locks.acquire(key, PATIENT);
    const others = [0, 1].map(() => a.locks.withLock(key, PATIENT, () => undefined));
    await deleteLock(key);
    await first.release();
    const outcomes = await Promise.allSettled(others);
    // After a stall of the machine, the first release finds it.
    await eventually(() => lost.length === 1);
    // All that had the lost grant are named: the loser, and those who handed it on.
    const had = acquired.filter(({ attempt }) => attempt === lost[0]!.attempt).map(({ fencingToken }) => fencingToken);
    const named = [...lost[0]!.earlier, lost[0]!].map(({ fencingToken }) => fencingToken);
    expect(named).toEqual(had);
    // The first one has a handle, whose release resolves.
    expect(outcomes.filter(({ status }) => status === 'rejected').length).toBe(had.length - 1);
    await expectNothingLeft([a], key);
  });
});
