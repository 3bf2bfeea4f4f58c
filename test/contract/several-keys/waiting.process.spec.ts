import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { untilQueuedAtFirst, waiters } from '../support/queued.js';
import { itWithQueue } from '../../support/topologies/topology.js';
import { startMortal } from '../support/mortal.js';

const PATIENT = { waitMs: 25_000 };

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
