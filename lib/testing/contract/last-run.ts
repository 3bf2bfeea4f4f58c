import { claimOf, JOB } from './claims.js';
import { SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

const FIRE = Date.UTC(2030, 0, 1);

/** What a store reports of the last run of a job. */
export const LAST_RUN: readonly PortCase[] = [
  {
    name: 'lastRun() reports the fire, instance, attempt and times of a run while it runs and after it ended',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      same(await b.store.lastRun(scene.key), null, 'the last run before there is one');
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      const running = await b.store.lastRun(scene.key);
      promised(running, 'a run to be told');
      const { job, fire, instance, attempt, outcome, ended } = running;
      const expected = [JOB, new Date(FIRE), 'host-1:4711', run.attempt, 'running', null];
      same([job, fire, instance, attempt, outcome, ended], expected, 'the run');
      scene.sameTime(running.started.getTime(), run.serverTimeMs, '`started`');
      await a.release(run, { runOutcome: 'done' });
      const done = await b.store.lastRun(scene.key);
      same([done?.outcome, done?.attempt, done?.fire], ['done', run.attempt, new Date(FIRE)], 'the run that ended');
      promised(done?.ended && done.ended >= done.started, '`ended` to come after `started`', done);
    },
  },
  {
    name: 'lastRun() reports the last run of a job, and without a job the one that began last',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const attempts: string[] = [];
      for (const [job, ms] of [
        ['A.run', FIRE + 1_000],
        ['B.run', FIRE],
        ['A.run', FIRE + 2_000],
        ['C.run', FIRE],
      ] as const) {
        const run = await a.eventuallyGranted(`a claim of ${job}`, claimOf(scene, 'at', ms, { job }));
        await a.release(run, { runOutcome: 'done' });
        attempts.push(run.attempt);
        await scene.time.pass(5 + 2 * scene.spreadMs);
      }
      const told = async (job?: string) => (await b.store.lastRun(scene.key, job))?.attempt;
      const [, ofB, ofA, ofC] = attempts;
      const jobs = [await told('A.run'), await told('B.run'), await told('C.run'), await told('D.run')];
      same(jobs, [ofA, ofB, ofC, undefined], 'the runs of the jobs');
      same([await told(), (await b.store.lastRun(scene.key))?.job], [ofC, 'C.run'], 'the run that began last');
    },
  },
  {
    name: 'a failed run is reported as `failed`, even after its release is sent again',
    needs: ['claims'],
    async run(scene) {
      const a = await scene.client();
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      await a.release(run, { runOutcome: 'failed' });
      await a.release(run, { runOutcome: 'done' });
      same((await a.store.lastRun(scene.key))?.outcome, 'failed', 'the outcome');
    },
  },
  {
    name: 'a run whose lease ended without an outcome is reported as `lost`',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
      const lost = await scene.time.until('the run to be lost', async () => {
        const last = await b.store.lastRun(scene.key);
        return last?.outcome === 'running' ? undefined : last;
      });
      same([lost?.outcome, lost?.ended, lost?.attempt], ['lost', null, run.attempt], 'the run');
    },
  },
  {
    name: 'a late release of a lost run does not touch the next run',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const rerun = claimOf(scene, 'at', FIRE, { rerunOnLoss: true });
      const lost = await a.granted('the claim', { ...rerun, leaseMs: SHORT_MS });
      const next = await b.eventuallyGranted('who reruns', rerun);
      for (const runOutcome of ['done', 'void'] as const) {
        await a.release(lost, { runOutcome });
        const last = await b.store.lastRun(scene.key);
        same([last?.attempt, last?.outcome], [next.attempt, 'running'], 'the run');
      }
    },
  },
];
