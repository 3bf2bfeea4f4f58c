import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithQueue, topology } from '../../support/topologies/topology.js';
import { startMortal } from '../support/mortal.js';

const PATIENT = { waitMs: 25_000 };

/** How many wait for each of the keys. */
const waiters = ({ locks }: LockApp, keys: readonly string[]): Promise<number[]> =>
  Promise.all(keys.map(async (key) => (await locks.inspect(key)).waiters));

/** Waits until somebody is in the queue of each key. */
async function untilQueued(app: LockApp, keys: readonly string[]): Promise<void> {
  await eventually(async () => (await waiters(app, keys)).every((count) => count > 0));
}

/** Waits until somebody waits for several busy keys: he does so for the first, in the order that all have in common. */
async function untilQueuedAtFirst(app: LockApp, keys: readonly string[]): Promise<void> {
  // On a cluster the order is that of the slots.
  if (topology.supports.oneScript) return untilQueued(app, [[...keys].sort()[0]!]);
  await eventually(async () => (await waiters(app, keys)).some((count) => count > 0));
}

describe('waiting for several keys', () => {
  afterEach(closeAll);

  itWithQueue('leaves all queues within the waiter lease when its process is killed', async () => {
    const [a, gone] = [await startApp(), await startMortal()];
    const keys = [freshKey(), freshKey()];
    const busy = await Promise.all(keys.map((key) => a.locks.acquire(key)));
    void gone.acquire(keys as unknown as string, PATIENT);
    await untilQueuedAtFirst(a, keys);
    await gone.kill();
    const next = keys.map((key) => a.locks.acquire(key, PATIENT));
    await eventually(async () => String(await waiters(a, keys)) === '1,1', { timeoutMs: 40_000 });
    for (const lock of busy) await lock.release();
    expect((await Promise.all(next)).map(({ held }) => held)).toEqual([true, true]);
  });
});
