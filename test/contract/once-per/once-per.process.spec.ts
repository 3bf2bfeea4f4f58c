import 'reflect-metadata';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { startJob } from '../../support/processes/job-app.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { topology } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { startMortalApp } from '../support/mortal.js';
import { HERE, Jobs, SLOT_MS, run, start } from '../support/once-per-jobs.js';

describe('a process that dies in the middle of a fire', () => {
  afterEach(closeAll);

  /** An instance that has begun to run the fire, and does not come to its end. */
  const startVictim = async (id: string): Promise<{ readonly instance: string; kill(): Promise<void> }> => {
    if (topology.isMemory) {
      const { app, kill } = await startMortalApp({}, { providers: [Jobs] });
      const begun = gate();
      void app.get(Jobs).run(id, () => new Promise(() => begun.open()));
      await begun.opened;
      return { instance: HERE, kill };
    }
    const locked = { oncePer: SLOT_MS, leaseMs: 5_000 };
    const schedule = { kind: 'interval', intervalMs: 100 } as const;
    const victim = await startJob({ key: `job:${id}`, schedule, locked, workMs: 600_000 });
    await eventually(() => victim.runs.length === 1);
    return victim;
  };

  it('blocks all later fires, which are skipped as busy, until its lease ends', async () => {
    const [a, id] = [await start(), freshKey()];
    const victim = await startVictim(id);
    await victim.kill();
    expect(await a.jobs.often(id, run)).toBeUndefined();
    expect(a.skipped).toEqual(['busy']);
    await eventually(async () => (await a.jobs.often(id, run)) !== undefined, { timeoutMs: 20_000 });
    expect(new Set(a.skipped)).toEqual(new Set(['busy']));
    expect(await a.lastRun(id)).toMatchObject({ job: 'Jobs.often', outcome: 'done' });
  });

  it('has lost its run when the lease ends, and no instance runs that fire again', async () => {
    const [a, id] = [await start(), freshKey()];
    const victim = await startVictim(id);
    expect(await a.lastRun(id)).toMatchObject({ outcome: 'running', instance: victim.instance });
    await victim.kill();
    await eventually(async () => (await a.lastRun(id))?.outcome === 'lost', { timeoutMs: 20_000 });
    expect(await a.jobs.run(id, run)).toBeUndefined();
    expect(a.skipped).toEqual(['claimed']);
    expect(await a.lastRun(id)).toMatchObject({ outcome: 'lost', instance: victim.instance });
  });

  it('has its fire run again by exactly one other instance with `rerunOnLoss`', async () => {
    const [a, b, id] = [await start(), await start(), freshKey()];
    const victim = await startVictim(id);
    const again = [a, b, a].map(({ rerunning }) => rerunning.run(id, run));
    await untilWaiting(a, `job:${id}`, 3);
    await victim.kill();
    const answers = await Promise.all(again);
    expect(answers.filter((answer) => answer === 'ran')).toHaveLength(1);
    expect([...a.skipped, ...b.skipped]).toEqual(['claimed', 'claimed']);
    expect(await a.lastRun(id)).toMatchObject({ outcome: 'done', instance: HERE });
  });
});
