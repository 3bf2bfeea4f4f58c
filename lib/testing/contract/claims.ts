import { type FireClaim } from '../../core/store/fires.js';
import { SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';
import { type Scene } from './kit/scene.js';

/** The job of a claim that names no other. */
export const JOB = 'Reports.noon';

const OTHER = 'Reports.night, of all: 100 %';

/** A claim that a call makes now. */
export const claimOf = ({ time }: Scene, kind: FireClaim['kind'], ms: number, rest: Partial<FireClaim> = {}) => ({
  claim: { job: JOB, kind, ms, calledAt: time.now(), rememberMs: 60_000, rerunOnLoss: false, ...rest },
});

const FIRE = Date.UTC(2030, 0, 1);

/** Fires of jobs, each of which is run once. */
export const CLAIMS: readonly PortCase[] = [
  {
    name: 'a fire at a given time is granted once, and the next fire is a new one',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      same(run.fireMs, FIRE, '`fireMs`');
      await a.release(run, { runOutcome: 'done' });
      const { claimedBy } = await b.refused('another claim of it', 'claimed', claimOf(scene, 'at', FIRE));
      same(claimedBy, undefined, '`claimedBy` of a run that is done');
      const next = await b.granted('the claim of the next fire', claimOf(scene, 'at', FIRE + 1_000));
      same(next.fireMs, FIRE + 1_000, '`fireMs` of the next');
    },
  },
  {
    name: 'jobs that share a key have fires and runs of their own',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const [one, other] = [claimOf(scene, 'at', FIRE), claimOf(scene, 'at', FIRE, { job: OTHER })];
      const first = await a.granted('the claim of a job', one);
      await b.busy('the claim of another job meanwhile', other);
      await a.release(first, { runOutcome: 'done' });
      const second = await b.eventuallyGranted('the claim of another job', other);
      same(second.fireMs, FIRE, '`fireMs`');
      await b.release(second, { runOutcome: 'failed' });
      for (const claim of [one, other]) await a.refused('another claim of each', 'claimed', claim);
      const outcomes = [JOB, OTHER].map(async (job) => (await b.store.lastRun(scene.key, job))?.outcome);
      same(await Promise.all(outcomes), ['done', 'failed'], 'the outcomes of the two jobs');
    },
  },
  {
    name: 'a `void` claim leaves the fire of another job claimed',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const [one, other] = [claimOf(scene, 'at', FIRE), claimOf(scene, 'at', FIRE, { job: OTHER })];
      await a.release(await a.granted('the claim of a job', one), { runOutcome: 'done' });
      await a.release(await a.eventuallyGranted('the claim of another', other), { runOutcome: 'void' });
      await b.refused('another claim of the job', 'claimed', one);
      await b.eventuallyGranted('the claim that was given back', other);
    },
  },
  {
    name: 'a fire that is running is refused with the attempt that claimed it, and nobody waits for it',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      const again = { ...claimOf(scene, 'at', FIRE, { rerunOnLoss: false }), waiterLeaseMs: 10_000 };
      const { claimedBy } = await b.refused('another claim of it', 'claimed', again);
      same(claimedBy, run.attempt, '`claimedBy`');
      await scene.nobodyWaits(a);
    },
  },
  {
    name: 'a claim that waits is granted when it asks in its turn, and refused if another one has run its fire',
    needs: ['claims', 'queue', 'wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const first = await b.waits('a claim', claimOf(scene, 'at', FIRE));
      const second = await c.waits('another claim', claimOf(scene, 'at', FIRE));
      await a.release(hold);
      same((await b.hears('the claim', first.request.attempt)).kind, 'wake', 'what the claim hears');
      const run = await b.eventuallyGranted('the claim', first.request);
      same(run.fireMs, FIRE, '`fireMs`');
      await b.release(run, { runOutcome: 'done' });
      await c.refused('the other claim', 'claimed', second.request);
      await scene.nobodyWaits(a);
    },
  },
  {
    name: 'a fire that is older than all fires that are remembered is refused',
    needs: ['claims'],
    async run(scene) {
      const a = await scene.client();
      for (let n = 1; n <= 40; n += 1) {
        const run = await a.eventuallyGranted(`fire ${n}`, claimOf(scene, 'at', FIRE + n * 1_000));
        await a.release(run, { runOutcome: 'done' });
      }
      await a.refused('an old fire', 'claimed', claimOf(scene, 'at', FIRE + 1_000));
    },
  },
  {
    name: '`rerunOnLoss` repeats the lost run, and no other',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const rerun = { rerunOnLoss: true };
      await a.release(await a.granted('a claim', claimOf(scene, 'at', FIRE)), { runOutcome: 'done' });
      await a.eventuallyGranted('the next one', { ...claimOf(scene, 'at', FIRE + 1_000), leaseMs: SHORT_MS });
      await scene.leaseEnds(b);
      await b.refused('who reruns the first', 'claimed', claimOf(scene, 'at', FIRE, rerun));
      await b.eventuallyGranted('who reruns the second', claimOf(scene, 'at', FIRE + 1_000, rerun));
    },
  },
  {
    name: 'at most one of many concurrent claims of a fire is granted',
    needs: ['claims'],
    async run(scene) {
      const clients = await scene.clients();
      const sent = [...clients, ...clients].map((client) => client.send(client.requestOf(claimOf(scene, 'at', FIRE))));
      const replies = await Promise.allSettled(sent);
      const granted = replies.filter((one) => one.status === 'fulfilled' && one.value.outcome === 'granted');
      promised(granted.length <= 1, 'at most one of six to be granted', granted);
    },
  },
  {
    name: 'a claim that is sent again returns the same grant',
    needs: ['claims', 'sameGrant'],
    async run(scene) {
      const a = await scene.client();
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      const again = await a.granted('the same attempt', run.request);
      same([again.fireMs, again.fencingToken], [FIRE, run.fencingToken], '`fireMs` and the token');
    },
  },
  {
    name: 'a fire whose run ended without an outcome is granted again only with `rerunOnLoss`',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
      await scene.leaseEnds(b);
      const { claimedBy } = await b.refused('who does not rerun', 'claimed', claimOf(scene, 'at', FIRE));
      same(claimedBy, dead.attempt, '`claimedBy`');
      const rerun = await b.eventuallyGranted('who reruns', claimOf(scene, 'at', FIRE, { rerunOnLoss: true }));
      await b.release(rerun, { runOutcome: 'failed' });
      await a.refused('who reruns what has failed', 'claimed', claimOf(scene, 'at', FIRE, { rerunOnLoss: true }));
    },
  },
  {
    name: 'a `void` claim frees its fire',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      await a.release(run, { runOutcome: 'void' });
      await scene.reports('the last run', null, () => a.store.lastRun(scene.key));
      const next = await b.eventuallyGranted('another claim of it', claimOf(scene, 'at', FIRE));
      same(next.fireMs, FIRE, '`fireMs`');
    },
  },
  {
    name: 'a claim whose lease has ended can still be given back as `void`',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
      await scene.leaseEnds(b);
      await a.release(dead, { runOutcome: 'void' });
      await b.eventuallyGranted('another claim of it', claimOf(scene, 'at', FIRE));
    },
  },
];
