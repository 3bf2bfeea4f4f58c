import { eventually } from '../../test/support/waiting/eventually.js';
import type { LeaderStatus } from '../src/reports/reports.controller.js';
import type { Sql } from '../src/database/open-database.js';
import { type Deployment, type Instance, cleanUp, deploy } from './support/instances.js';

interface Report {
  readonly instance: string;
  readonly token: number;
}

/** All reports, in the order in which they were written. */
const reportsOf = (sql: Sql): Report[] =>
  sql.prepare('SELECT instance, fencing_token AS token FROM reports ORDER BY id').all() as Report[];

async function statusOf({ url }: Instance): Promise<LeaderStatus> {
  // A connection that is kept may be closed by an instance that was stopped.
  const answer = await fetch(`${url}/reports/leader`, { headers: { connection: 'close' } });
  return (await answer.json()) as LeaderStatus;
}

/** The instance that leads, if it is among these. */
async function leading(instances: readonly Instance[]): Promise<Instance | undefined> {
  const all = await Promise.all(instances.map(async (one) => ({ one, status: await statusOf(one) })));
  return all.find(({ status }) => status.leads)?.one;
}

/** Waits until one of these instances leads and has written its report. */
async function leaderOf({ sql }: Deployment, instances: readonly Instance[]): Promise<Instance> {
  const found = async (): Promise<Instance | undefined> => {
    const leader = await leading(instances);
    return reportsOf(sql).at(-1)?.instance === leader?.name ? leader : undefined;
  };
  return eventually(found, { timeoutMs: 40_000, message: 'No instance leads' });
}

/** Starts instances of which one leads. */
async function start(leaseMs: number) {
  const env = { REPORTS_LEASE_MS: String(leaseMs), REPORTS_PERIOD_MS: '100' };
  const app = await deploy(['A', 'B', 'C'], env);
  const leader = await leaderOf(app, app.instances);
  const others = app.instances.filter((one) => one !== leader);
  return { ...app, leader, others, app };
}

describe('the leader of the sample app', () => {
  afterEach(cleanUp);

  it('alone writes reports, and is named by all instances', async () => {
    const { sql, leader, instances } = await start(60_000);
    const count = reportsOf(sql).length;
    await eventually(() => reportsOf(sql).length >= count + 10);
    expect(new Set(reportsOf(sql).map(({ instance }) => instance))).toEqual(new Set([leader.name]));
    const all = await Promise.all(instances.map(statusOf));
    expect(all.map((status) => status.leader?.pid)).toEqual(instances.map(() => leader.process.pid));
    expect(all.filter(({ leads }) => leads).map(({ instance }) => instance)).toEqual([leader.name]);
  }, 60_000);

  it('is followed by another instance, with a greater token, when it is killed', async () => {
    const { sql, leader, others, app } = await start(2_000);
    const { token } = reportsOf(sql).at(-1)!;
    await leader.kill();
    const next = await leaderOf(app, others);
    expect(reportsOf(sql).at(-1)!.token).toBeGreaterThan(token);
    expect((await statusOf(next)).leader?.pid).toBe(next.process.pid);
  }, 60_000);

  it('writes nothing after it was stopped for longer than its lease, since another leads then', async () => {
    // Longer than the next leader stands still on a busy machine: it would be followed by the first one again.
    const { sql, leader, others } = await start(6_000);
    leader.process.kill('SIGSTOP');
    // If it was stopped while it wrote, it keeps the database from the next one.
    await eventually(() => leading(others), { timeoutMs: 40_000, message: 'No instance leads' });
    leader.process.kill('SIGCONT');
    await eventually(async () => !(await statusOf(leader)).leads);
    const count = reportsOf(sql).length;
    await eventually(() => reportsOf(sql).length >= count + 10);
    const all = reportsOf(sql);
    const firstOfNext = all.findIndex(({ instance }) => instance !== leader.name);
    expect(all.slice(firstOfNext).filter(({ instance }) => instance === leader.name)).toEqual([]);
    expect(all.map(({ token }) => token)).toEqual(all.map(({ token }) => token).toSorted((a, b) => a - b));
  }, 60_000);

  it('hands the lead on when it receives a signal to end, long before its lease is over', async () => {
    const { leader, others, app } = await start(600_000);
    leader.process.kill('SIGTERM');
    await leaderOf(app, others);
  }, 60_000);
});
