import { type FireClaim } from '../../core/store/fires.js';
import { it, needing, type PortCase, promised, same, type Scene, SHORT_MS } from './kit.js';

const JOB = 'Reports.noon';

const OTHER = 'Reports.night, of all: 100 %';

const claimOf = ({ time }: Scene, kind: FireClaim['kind'], ms: number, rest: Partial<FireClaim> = {}) => ({
  claim: { job: JOB, kind, ms, calledAt: time.now(), rememberMs: 60_000, rerunOnLoss: false, ...rest },
});

const FIRE = Date.UTC(2030, 0, 1);

/** Wide enough that no test reaches its end. */
const WIDE_MS = 10 ** 11;
const NARROW_MS = 300;

export const JOBS: readonly PortCase[] = needing(['claims'])([
  // Fires of jobs, each of which is run once.
  it('a fire at a given time is granted once, and the next fire is a new one', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
    same(run.fireMs, FIRE, '`fireMs`');
    await a.release(run, { runOutcome: 'done' });
    const { claimedBy } = await b.refused('another claim of it', 'claimed', claimOf(scene, 'at', FIRE));
    same(claimedBy, undefined, '`claimedBy` of a run that is done');
    const next = await b.granted('the claim of the next fire', claimOf(scene, 'at', FIRE + 1_000));
    same(next.fireMs, FIRE + 1_000, '`fireMs` of the next');
  }),
  it('jobs that share a key have separate fires and runs', async (scene, a, b) => {
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
  }),
  it('a `void` claim leaves the fire of another job claimed', async (scene, a, b) => {
    const [one, other] = [claimOf(scene, 'at', FIRE), claimOf(scene, 'at', FIRE, { job: OTHER })];
    await a.release(await a.granted('the claim of a job', one), { runOutcome: 'done' });
    await a.release(await a.eventuallyGranted('the claim of another', other), { runOutcome: 'void' });
    await b.refused('another claim of the job', 'claimed', one);
    await b.eventuallyGranted('the claim that was given back', other);
  }),
  it('a fire that is running is refused with the attempt that claimed it, and no claim waits for it', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
    const again = { ...claimOf(scene, 'at', FIRE, { rerunOnLoss: false }), waiterLeaseMs: 10_000 };
    const { claimedBy } = await b.refused('another claim of it', 'claimed', again);
    same(claimedBy, run.attempt, '`claimedBy`');
    await scene.nobodyWaits(a);
  }),
  it('a fire that is older than all remembered fires is refused', async (scene, a) => {
    for (let n = 1; n <= 40; n += 1) {
      const run = await a.eventuallyGranted(`fire ${n}`, claimOf(scene, 'at', FIRE + n * 1_000));
      await a.release(run, { runOutcome: 'done' });
    }
    const last = await a.eventuallyGranted('a claim that is given back', claimOf(scene, 'at', FIRE + 41_000));
    await a.release(last, { runOutcome: 'void' });
    await a.refused('an old fire', 'claimed', claimOf(scene, 'at', FIRE + 1_000));
  }),
  it('`rerunOnLoss` repeats the lost run, and no other', async (scene, a, b) => {
    const rerun = { rerunOnLoss: true };
    await a.release(await a.granted('a claim', claimOf(scene, 'at', FIRE)), { runOutcome: 'done' });
    await a.eventuallyGranted('the next one', { ...claimOf(scene, 'at', FIRE + 1_000), leaseMs: SHORT_MS });
    await scene.leaseEnds(b);
    await b.refused('who reruns the first', 'claimed', claimOf(scene, 'at', FIRE, rerun));
    await b.eventuallyGranted('who reruns the second', claimOf(scene, 'at', FIRE + 1_000, rerun));
  }),
  it('at most one of many concurrent claims of a fire is granted', async (scene, a, b, c) => {
    const clients = [a, b, c];
    const sent = [...clients, ...clients].map((client) => client.send(client.requestOf(claimOf(scene, 'at', FIRE))));
    const replies = await Promise.allSettled(sent);
    const granted = replies.filter((one) => one.status === 'fulfilled' && one.value.outcome === 'granted');
    promised(granted.length <= 1, 'at most one of six to be granted', granted);
  }),
  it('a fire whose run ended without an outcome is granted again only with `rerunOnLoss`', async (scene, a, b) => {
    const dead = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
    await scene.leaseEnds(b);
    const { claimedBy } = await b.refused('who does not rerun', 'claimed', claimOf(scene, 'at', FIRE));
    same(claimedBy, dead.attempt, '`claimedBy`');
    const rerun = await b.eventuallyGranted('who reruns', claimOf(scene, 'at', FIRE, { rerunOnLoss: true }));
    await b.release(rerun, { runOutcome: 'failed' });
    await a.refused('who reruns what has failed', 'claimed', claimOf(scene, 'at', FIRE, { rerunOnLoss: true }));
  }),
  it('a `void` claim frees its fire', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
    await a.release(run, { runOutcome: 'void' });
    await scene.reports('the last run', null, () => a.store.lastRun(scene.key));
    const next = await b.eventuallyGranted('another claim of it', claimOf(scene, 'at', FIRE));
    same(next.fireMs, FIRE, '`fireMs`');
  }),
  it('a claim whose lease has ended can still be given back as `void`', async (scene, a, b) => {
    const dead = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
    await scene.leaseEnds(b);
    await a.release(dead, { runOutcome: 'void' });
    await b.eventuallyGranted('another claim of it', claimOf(scene, 'at', FIRE));
  }),
  // Claims of slots and gaps, whose fire the store finds.
  it('a slot is granted once, and the clock of the store decides which slot it is', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'slot', WIDE_MS));
    same(run.fireMs, Math.floor(run.serverTimeMs / WIDE_MS) * WIDE_MS, '`fireMs`');
    await a.release(run, { runOutcome: 'done' });
    await b.refused('another claim of the slot', 'claimed', claimOf(scene, 'slot', WIDE_MS));
  }),
  it('a call belongs to the slot in which it was made, however late its request arrives', async (scene, a) => {
    const calledAt = scene.time.now() - 2 * WIDE_MS;
    const run = await a.granted('the claim', claimOf(scene, 'slot', WIDE_MS, { calledAt }));
    const slot = Math.floor(run.serverTimeMs / WIDE_MS) * WIDE_MS;
    same(run.fireMs, slot - 2 * WIDE_MS, '`fireMs`');
  }),
  it('the slot after a finished one is granted', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'slot', NARROW_MS));
    await a.release(run, { runOutcome: 'done' });
    const next = await scene.time.until('the next slot to be granted', async () => {
      const { reply } = await b.acquire(claimOf(scene, 'slot', NARROW_MS));
      return reply.outcome === 'granted' ? reply : undefined;
    });
    const isLater = next.fireMs! > run.fireMs! && next.fireMs! % NARROW_MS === 0;
    promised(isLater, `a later slot than ${run.fireMs}`, next.fireMs);
  }),
  it('a gap is refused until its time after the last fire has passed, and then granted', async (scene, a, b) => {
    const run = await a.granted('the claim', claimOf(scene, 'gap', NARROW_MS));
    scene.sameTime(run.fireMs!, run.serverTimeMs, '`fireMs`');
    await a.release(run, { runOutcome: 'done' });
    await b.refused('a wider gap', 'claimed', claimOf(scene, 'gap', WIDE_MS));
    const next = await scene.time.until('the gap to end', async () => {
      const { reply } = await b.acquire(claimOf(scene, 'gap', NARROW_MS));
      return reply.outcome === 'granted' ? reply : undefined;
    });
    scene.notBefore('the gap', run.fireMs! + NARROW_MS, { serverTimeMs: next.fireMs! });
  }),
  // The store's report of the last run of a job.
  it('lastRun() reports the fire, instance, attempt and times of a run while it runs and after it ended', async (scene, a, b) => {
    same(await b.store.lastRun(scene.key), null, 'the last run before the first one');
    const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
    const running = await b.store.lastRun(scene.key);
    promised(running, 'a run to be reported');
    const { job, fire, instance, attempt, outcome, ended } = running;
    const expected = [JOB, new Date(FIRE), 'host-1:4711', run.attempt, 'running', null];
    same([job, fire, instance, attempt, outcome, ended], expected, 'the run');
    scene.sameTime(running.started.getTime(), run.serverTimeMs, '`started`');
    await a.release(run, { runOutcome: 'done' });
    const done = await b.store.lastRun(scene.key);
    same([done?.outcome, done?.attempt, done?.fire], ['done', run.attempt, new Date(FIRE)], 'the run that ended');
    promised(done?.ended && done.ended >= done.started, '`ended` to come after `started`', done);
  }),
  it('lastRun() reports the last run of a job, and without a job the one that began last', async (scene, a, b) => {
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
  }),
  it('a failed run is reported as `failed`, even after its release is sent again', async (scene, a) => {
    const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
    await a.release(run, { runOutcome: 'failed' });
    await a.release(run, { runOutcome: 'done' });
    same((await a.store.lastRun(scene.key))?.outcome, 'failed', 'the outcome');
  }),
  it('a run whose lease ended without an outcome is reported as `lost`', async (scene, a, b) => {
    const run = await a.granted('the claim', { ...claimOf(scene, 'at', FIRE), leaseMs: SHORT_MS });
    const lost = await scene.time.until('the run to be lost', async () => {
      const last = await b.store.lastRun(scene.key);
      return last?.outcome === 'running' ? undefined : last;
    });
    same([lost?.outcome, lost?.ended, lost?.attempt], ['lost', null, run.attempt], 'the run');
  }),
  it('a late release of a lost run does not touch the next run', async (scene, a, b) => {
    const rerun = claimOf(scene, 'at', FIRE, { rerunOnLoss: true });
    const lost = await a.granted('the claim', { ...rerun, leaseMs: SHORT_MS });
    const next = await b.eventuallyGranted('who reruns', rerun);
    for (const runOutcome of ['done', 'void'] as const) {
      await a.release(lost, { runOutcome });
      const last = await b.store.lastRun(scene.key);
      same([last?.attempt, last?.outcome], [next.attempt, 'running'], 'the run');
    }
  }),
  ...needing(['sameGrant'])([
    // Fires of jobs, each of which is run once.
    it('a claim that is sent again returns the same grant', async (scene, a) => {
      const run = await a.granted('the claim', claimOf(scene, 'at', FIRE));
      const again = await a.granted('the same attempt', run.request);
      same([again.fireMs, again.fencingToken], [FIRE, run.fencingToken], '`fireMs` and the token');
    }),
  ]),
  ...needing(['queue', 'wakeUps'])([
    // Fires of jobs, each of which is run once.
    it('a claim that waits is granted when it asks in its turn, and refused if another one has run its fire', async (scene, a, b, c) => {
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
    }),
  ]),
]);
