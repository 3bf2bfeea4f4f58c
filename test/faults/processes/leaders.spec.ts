import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { startLeader } from '../../support/processes/leader-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const LEASE_MS = 2_000;

/** Starts an instance that leads and works, and one that waits for its turn. */
async function startTwo(leaseMs: number) {
  const options = { key: freshKey('leader'), leaseMs, everyMs: 200 };
  const first = await startLeader(options);
  await first.next('worked');
  const second = await startLeader(options);
  await untilWaiting(await startApp(), options.key);
  return [first, second] as const;
}

describe('a leader in a process of its own', () => {
  afterEach(closeAll);

  it('is followed by another when it is killed', async () => {
    const [first, second] = await startTwo(LEASE_MS);
    const { fencingToken } = first.reports.at(-1)!;
    const elected = second.next('elected');
    first.process.kill('SIGKILL');
    expect((await elected).fencingToken).toBeGreaterThan(fencingToken);
    expect((await second.next('worked')).fencingToken).toBe((await elected).fencingToken);
  }, 60_000);

  it('is told that its term is over before it works again, when it was stopped for longer than its lease', async () => {
    const [first, second] = await startTwo(LEASE_MS);
    // It has just worked, and has nothing to do at this moment.
    const { fencingToken } = await first.next('worked');
    first.process.kill('SIGSTOP');
    const elected = await second.next('elected');
    expect(elected.fencingToken).toBeGreaterThan(fencingToken);
    await second.next('worked');
    const before = first.reports.length;
    first.process.kill('SIGCONT');
    await eventually(() => first.reports.length > before);
    expect(first.reports[before]).toMatchObject({ kind: 'demoted', fencingToken });
    for (let i = 0; i < 5; i += 1) await second.next('worked');
    expect(first.reports.slice(before)).toHaveLength(1);
  }, 60_000);

  it('hands the lead on at SIGTERM, long before its lease would end', async () => {
    const [first, second] = await startTwo(600_000);
    const elected = second.next('elected');
    first.process.kill('SIGTERM');
    const { fencingToken } = await elected;
    expect(first.reports.at(-1)).toMatchObject({ kind: 'demoted', reason: 'shutdown' });
    expect(fencingToken).toBeGreaterThan(first.reports.at(-1)!.fencingToken);
  }, 60_000);
});
