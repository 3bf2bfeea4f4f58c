import 'reflect-metadata';
import { LockConfigurationError, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { HERE, SLOT_MS, WIDTH_MS, run, start } from '../support/once-per-jobs.js';
import { openStore } from '../support/stores.js';
import { itOnRedis } from '../../support/topologies/topology.js';
import { whenAllHeard } from '../../support/waiting/waiters.js';

describe('the last run of a job', () => {
  afterEach(closeAll);

  it('is null before the first, running during it, and done after it', async () => {
    const [a, b, store] = [await start(), await start(), openStore()];
    const [id, until] = [freshKey(), gate()];
    expect(await a.lastRun(id)).toBeNull();
    const before = await store.now();
    const running = a.jobs.run(id, async () => until.opened.then(run));
    const during = await eventually(() => b.lastRun(id));
    expect(during).toMatchObject({ instance: HERE, outcome: 'running', ended: null });
    expect(during.started.getTime()).toBeGreaterThanOrEqual(before);
    expect(during.fire.getTime()).toBe(Math.floor(before / SLOT_MS) * SLOT_MS);
    until.open();
    expect(await running).toBe('ran');
    const after = (await b.lastRun(id))!;
    expect(after).toEqual({ ...during, outcome: 'done', ended: expect.any(Date) });
    expect(after.ended!.getTime()).toBeGreaterThanOrEqual(after.started.getTime());
    expect(after.ended!.getTime()).toBeLessThanOrEqual(await store.now());
  });

  it('is failed when the work threw, and the fire does not run again', async () => {
    const [a, b] = [await start(), await start()];
    const [id, error] = [freshKey(), new Error('of the work')];
    expect(await rejection(a.jobs.run(id, () => Promise.reject(error)))).toBe(error);
    expect(await a.lastRun(id)).toMatchObject({ outcome: 'failed', instance: HERE, ended: expect.any(Date) });
    expect([await b.jobs.run(id, run), await b.rerunning.run(id, run)]).toEqual([undefined, undefined]);
    expect(b.skipped).toEqual(['claimed', 'claimed']);
  });

  itOnRedis('leaves one hash of the documented fields, with a time to live', async () => {
    const [a, admin] = [await start(), openAdmin()];
    const id = freshKey();
    await a.jobs.run(id, run);
    await a.jobs.run(id, run);
    await a.jobs.often(id, run);
    await whenAllHeard(async () => {
      const fields = (await admin.hkeys(`lock:job:${id}`)).toSorted();
      // A node of a quorum may hear of the release while its answer to the acquire is in flight.
      expect(fields.filter((field) => field !== 'late')).toEqual(
        ['by', 'job:Jobs.often', 'job:Jobs.run', 'jobs', 'r', 's'].toSorted(),
      );
    });
    expect(await admin.pttl(`lock:job:${id}`)).toBeGreaterThan(0);
  });
});

describe('a call of a job that runs once per slot', () => {
  afterEach(closeAll);

  it('belongs to the slot in which it was made, however late its claim is', async () => {
    const [a, store] = [await start(), openStore()];
    const slot = (ms: number): number => Math.floor(ms / WIDTH_MS) * WIDTH_MS;
    const calls = Array.from({ length: 6 }, async () => {
      const id = freshKey();
      // Early in a slot: the way of the command to the server makes the call look later.
      // Not in its first milliseconds: the clocks of the store and of the process differ by one.
      await eventually(async () => Math.abs(((await store.now()) % WIDTH_MS) - WIDTH_MS / 8) < WIDTH_MS / 10);
      const before = await store.now();
      const called = a.jobs.late(id, run);
      const after = await store.now();
      expect(await called).toBe('ran');
      expect([slot(before), slot(after)]).toContain((await a.lastRun(id))!.fire.getTime());
    });
    await Promise.all(calls);
  });
});

describe('oncePer', () => {
  afterEach(closeAll);

  it.each(['fire', 60_000] as const)('refuses %s with two keys when the class is defined', (oncePer) => {
    const define = () => {
      class Orders {
        @Locked(['job', 'other'], { oncePer })
        async run(): Promise<void> {}
      }
      return Orders;
    };
    expect(define).toThrow(LockConfigurationError);
    expect(define).toThrow(/^Orders\.run: `oncePer` needs one key, got 2; give the job one name\.$/);
  });
});
