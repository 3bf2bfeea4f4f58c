import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp } from '../../support/apps/lock-app.js';
import { topology } from '../../support/topologies/topology.js';

/** How many wait for each of the keys. */
export const waiters = ({ locks }: LockApp, keys: readonly string[]): Promise<number[]> =>
  Promise.all(keys.map(async (key) => (await locks.inspect(key)).waiters));

/** Waits until the queue of each key has a waiter. */
export async function untilQueued(app: LockApp, keys: readonly string[]): Promise<void> {
  await eventually(async () => (await waiters(app, keys)).every((count) => count > 0));
}

/** Waits until a call waits for several busy keys: it queues for the first one, in the common order of all calls. */
export async function untilQueuedAtFirst(app: LockApp, keys: readonly string[]): Promise<void> {
  // On a cluster the order is that of the slots.
  if (topology.supports.oneScript) return untilQueued(app, [[...keys].sort()[0]!]);
  await eventually(async () => (await waiters(app, keys)).some((count) => count > 0));
}
