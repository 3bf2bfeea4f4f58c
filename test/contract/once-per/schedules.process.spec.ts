import 'reflect-metadata';
import { eventually } from '../../support/waiting/eventually.js';
import { type JobApp, type JobOptions, startJob } from '../../support/processes/job-app.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { describeOnRedis } from '../../support/topologies/topology.js';
import { grantedAt } from '../../support/redis/records.js';

const HOUR_MS = 3_600_000;

/** The time zones of the processes themselves, in turn; their jobs may name another. */
const LOCAL_ZONES = ['UTC', 'America/New_York', 'Asia/Tokyo'];

const startAll = (skews: readonly number[], options: Omit<JobOptions, 'skewMs'>): Promise<JobApp[]> =>
  Promise.all(skews.map((skewMs, i) => startJob({ localZone: LOCAL_ZONES[i], ...options, skewMs })));

/** Every other second of this hour and the next in India, when the hour is another one wherever the processes are. */
function everyOtherSecondInIndia(): string {
  const hour = new Date(Date.now() + 5.5 * HOUR_MS).getUTCHours();
  return `*/2 * ${hour},${(hour + 1) % 24} * * *`;
}

const runsOf = (jobs: readonly Pick<JobApp, 'runs'>[]) => jobs.flatMap(({ runs }) => runs);
const skipsOf = (jobs: readonly JobApp[]) => jobs.flatMap(({ skips }) => skips);

/** Waits until `count` more fires have run, and processes have skipped that many: at first, some may still start. */
async function untilRun(jobs: readonly JobApp[], count: number): Promise<void> {
  const before = runsOf(jobs).length;
  const skips = () => skipsOf(jobs).filter(({ reason }) => reason === 'claimed').length;
  await eventually(() => runsOf(jobs).length >= before + count && skips() >= count, { timeoutMs: 60_000 });
}

/** Lets the processes end by themselves, so that they report everything. */
async function stopAll(jobs: readonly JobApp[]): Promise<void> {
  await Promise.all(jobs.map((job) => job.stop()));
}

/** Asserts that each fire ran once, and that all other calls were skipped as claimed, or for a reason in `others`. */
function expectOncePerFire(jobs: readonly JobApp[], others: readonly string[] = []): void {
  const fires = runsOf(jobs).map(({ fire }) => fire);
  expect(fires.filter((fire, i) => fires.indexOf(fire) !== i)).toEqual([]);
  const reasons = new Set(skipsOf(jobs).map(({ reason }) => reason));
  for (const other of ['shutdown', ...others]) reasons.delete(other);
  expect([...reasons]).toEqual(['claimed']);
  expect(jobs.flatMap(({ logs }) => logs)).toEqual([]);
}

/** Two calls around the border of two slots claim one each, and the second meets the run of the first. */
const AT_BORDERS = ['busy'];

/** Each fire is the slot of its call, by the server's clock: just before the grant. */
function expectSlots(jobs: readonly Pick<JobApp, 'runs'>[], widthMs: number): void {
  for (const run of runsOf(jobs)) {
    expect(run.fire % widthMs).toBe(0);
    expect(run.fire).toBeLessThanOrEqual(grantedAt(run));
    expect(run.fire).toBeGreaterThan(grantedAt(run) - HOUR_MS / 2);
  }
}

describeOnRedis('a job with `oncePer` in several processes', () => {
  afterEach(closeAll);

  const CRONS = [
    [8, { kind: 'cron', cron: '*/2 * * * * *' }],
    [4, { kind: 'cron', cron: everyOtherSecondInIndia(), timeZone: 'Asia/Kolkata' }],
  ] as const;
  it.each(CRONS)(
    'runs each of %i fires once, with work of 1 ms and clocks half a period apart (%o)',
    async (count, schedule) => {
      const started = Date.now();
      const jobs = await startAll([0, 500, -500], { key: freshKey('job'), schedule });
      // The first ones came while others were starting.
      const before = runsOf(jobs).length;
      await untilRun(jobs, count);
      await stopAll(jobs);
      expectOncePerFire(jobs);
      const fires = runsOf(jobs).map(({ fire }) => fire);
      expect(fires.filter((fire) => fire % 2_000 !== 0)).toEqual([]);
      expect(Math.min(...fires)).toBeGreaterThan(started - 3_000);
      // What one skipped, another has run: by its own clock, in which it may have been late.
      for (const { at, reason } of skipsOf(jobs)) {
        const due = at - (at % 2_000);
        if (reason === 'claimed') expect(fires.includes(due) || fires.includes(due - 2_000)).toBe(true);
      }
      // No fire is late by a whole period unless this machine stood still: then the scheduler skips fires.
      expect(skipsOf(jobs).length).toBeGreaterThanOrEqual(fires.length - before);
    },
    150_000,
  );

  // A file, as some images have it: cron goes by UTC then, whatever the offset of the clock.
  it('runs an unnamed @Cron where Node cannot determine its time zone', async () => {
    const localZone = ':/etc/localtime';
    const hour = new Date().getUTCHours();
    const schedule = { kind: 'cron', cron: `*/2 * ${hour},${(hour + 1) % 24} * * *` } as const;
    const jobs = await startAll([0, 0], { key: freshKey('job'), schedule, localZone });
    await untilRun(jobs, 3);
    await stopAll(jobs);
    expectOncePerFire(jobs);
    const fires = runsOf(jobs).map(({ fire }) => fire);
    expect(fires.filter((fire) => fire % 2_000 !== 0)).toEqual([]);
    expect(Math.min(...fires)).toBeGreaterThan(Date.now() - HOUR_MS / 2);
  }, 120_000);

  it('runs once per slot of the server clock, whatever the clocks of the callers', async () => {
    const key = freshKey('job');
    const schedule = { kind: 'interval', intervalMs: 90 } as const;
    const jobs = await startAll([HOUR_MS, -HOUR_MS], { key, schedule, locked: { oncePer: 1_000, spreadMs: 20 } });
    await untilRun(jobs, 5);
    await stopAll(jobs);
    expectOncePerFire(jobs, AT_BORDERS);
    expectSlots(jobs, 1_000);
  }, 120_000);

  it('runs an @Interval once per interval', async () => {
    const key = freshKey('job');
    const jobs = await startAll([0, HOUR_MS, 0], { key, schedule: { kind: 'interval', intervalMs: 1_000 } });
    await untilRun(jobs, 4);
    await stopAll(jobs);
    expectOncePerFire(jobs, AT_BORDERS);
    expectSlots(jobs, 1_000);
  }, 120_000);

  it('runs a @Timeout once, though the processes start at different times', async () => {
    // All processes must start within this time.
    const schedule = { kind: 'timeout', timeoutMs: 12_000 } as const;
    const jobs = await startAll([0, HOUR_MS, -HOUR_MS], { key: freshKey('job'), schedule });
    await eventually(() => runsOf(jobs).length + skipsOf(jobs).length === 3, { timeoutMs: 60_000 });
    await stopAll(jobs);
    expect(runsOf(jobs)).toHaveLength(1);
    expectOncePerFire(jobs);
  }, 120_000);
});
