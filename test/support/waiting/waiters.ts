import { type Lock, type LockOptions } from '../../../lib/index.js';
import { type EventuallyOptions, eventually, eventuallyPasses } from './eventually.js';
import { type LockApp, freshKey } from '../apps/lock-app.js';
import { topology } from '../topologies/topology.js';

/**
 * Waits until a key has that many waiters, across all instances. The store may have a waiter before this process has
 * read the grant of the call before it.
 */
export async function untilWaiting({ locks }: Pick<LockApp, 'locks'>, key: string, count = 1): Promise<void> {
  await eventually(async () => (await locks.inspect(key)).waiters === count, { intervalMs: 5 });
}

/** Waits until the lock is free. */
export async function untilFree({ locks }: Pick<LockApp, 'locks'>, key: string): Promise<void> {
  await eventually(async () => !(await locks.isLocked(key)), { message: `The lock "${key}" was not released` });
}

/** Waits until an instance has renewed its locks `times` times from now on. */
export async function untilRenewed({ locks }: Pick<LockApp, 'locks'>, times: number, options?: EventuallyOptions) {
  let renewals = 0;
  locks.events.on('renewed', () => (renewals += 1));
  await eventually(() => renewals >= times, options);
}

/** Waits until nothing of any lock is alive in these instances. */
export async function expectNothingAlive(apps: readonly Pick<LockApp, 'locker'>[]): Promise<void> {
  const nothing = { locks: 0, waiting: 0, releasing: 0, timers: 0 };
  const live = () => apps.map(({ locker }) => locker.live);
  await eventuallyPasses(() => expect(live()).toEqual(apps.map(() => nothing)), { timeoutMs: 20_000 });
}

/** The order of arrival among all callers, each of which has a place in the queue, where there is one. */
export const inQueue: LockOptions = topology.supports.queue ? { fair: 'strict' } : {};

/** Starts to wait for a key, and resolves once it is the last in the queue. */
export async function enqueue(
  app: Pick<LockApp, 'locks'>,
  key: string,
  options: LockOptions = {},
): Promise<{ lock: Promise<Lock> }> {
  const { waiters } = await app.locks.inspect(key);
  const lock = app.locks.acquire(key, { waitMs: 25_000, ...inQueue, ...options });
  await untilWaiting(app, key, waiters + 1);
  return { lock };
}

/**
 * Asserts that a step takes less than `ms`; `prepare` gives the step. A step that waits for a poll never does. On a machine that
 * stands still, a step may need another try.
 */
export async function untilQuick(ms: number, prepare: () => Promise<() => Promise<unknown>>): Promise<void> {
  const isQuick = async (): Promise<boolean> => {
    const step = await prepare();
    const from = performance.now();
    await step();
    return performance.now() - from < ms;
  };
  await eventually(isQuick, { timeoutMs: 40_000, message: `No step took less than ${ms} ms` });
}

/** Asserts that a message wakes a waiter: without one, it asks again after two seconds. */
export async function expectWoken(holder: LockApp, waiter: LockApp, newKey = (): string => freshKey()): Promise<void> {
  await untilQuick(1_500, async () => {
    const key = newKey();
    const lock = await holder.locks.acquire(key, { leaseMs: 60_000 });
    const waiting = waiter.locks.acquire(key, { leaseMs: 60_000, waitMs: 60_000 });
    await untilWaiting(holder, key);
    return async () => {
      await lock.release();
      await (await waiting).release();
    };
  });
}

/** Asserts what the last command left behind: at once, or eventually on a quorum, where a node may get the command late. */
export async function whenAllHeard(assertions: () => Promise<void>): Promise<void> {
  await (topology.supports.oneRecord ? assertions() : eventuallyPasses(assertions));
}
