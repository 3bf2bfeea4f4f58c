import { eventually } from '../support/waiting/eventually.js';
import { grantedAt } from '../support/redis/records.js';
import { startJob } from '../support/processes/job-app.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { expectDeadline, openStore } from './support/stores.js';
import { itOnRedis } from '../support/topologies/topology.js';

/** Longer than a test waits. */
const MIN_MS = 120_000;

describe('holdAtLeastMs and the end of the app', () => {
  afterEach(closeAll);

  itOnRedis('keeps the key taken when SIGTERM ends the process in the middle of its work', async () => {
    const [{ locks }, store] = [await startApp(), openStore()];
    const key = freshKey();
    const job = await startJob({
      key,
      schedule: { kind: 'interval', intervalMs: 100 },
      locked: { oncePer: 30 * 24 * 3_600_000, holdAtLeastMs: MIN_MS },
      workMs: 500,
    });
    await eventually(() => job.runs.length === 1);
    await job.stop();
    await expectDeadline(store, key, grantedAt(job.runs[0]!) + MIN_MS);
    expect(await locks.tryAcquire(key)).toBeNull();
    expect(await locks.lastRun(key)).toMatchObject({ outcome: 'done', instance: job.instance });
    expect(job.logs).toEqual([]);
  });
});
