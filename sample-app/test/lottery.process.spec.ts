import { eventually } from '../../test/support/waiting/eventually.js';
import type { Sql } from '../src/database/open-database.js';
import { checkDraws } from '../src/runner/check-draws.js';
import { type Deployment, cleanUp, deploy } from './support/instances.js';

const firesOf = (sql: Sql): number[] => sql.prepare('SELECT fire FROM draws ORDER BY id').pluck().all() as number[];

const winnersWithoutDraw = (sql: Sql): unknown[] =>
  sql.prepare('SELECT * FROM winners WHERE draw_id NOT IN (SELECT id FROM draws)').all();

/** A draw takes so long that its instance is killed or stopped in it, and not while it writes to the database. */
const LONG_DRAWS = { LOTTERY_LEASE_MS: '4000', LOTTERY_DRAW_MS: '5000' };

/** Resolves to an instance that draws, and its token. */
async function firstToDraw({ instances }: Deployment) {
  const drawing = () => instances.find(({ reports }) => reports.at(-1)?.outcome === 'drawing');
  const winner = await eventually(drawing, { timeoutMs: 40_000 });
  return { winner, ...(winner.reports.at(-1) as { fencingToken: number }) };
}

/** Waits for a draw with a greater token: the winner does nothing meanwhile, so it is the draw of another instance. */
async function laterDraw({ sql, instances }: Deployment, fencingToken: number): Promise<void> {
  const isDrawn = () => {
    if (sql.prepare('SELECT id FROM draws WHERE fencing_token > ?').get(fencingToken)) return true;
    const reports = instances.map((instance) => `${instance.name}: ${JSON.stringify(instance.reports)}`);
    throw new Error(`No instance drew after ${fencingToken}.\n${reports.join('\n')}`);
  };
  await eventually(isDrawn, { timeoutMs: 40_000 });
}

describe('the lottery', () => {
  afterEach(cleanUp);

  it('is drawn once per fire by three instances, with ten different winners', async () => {
    const { sql, instances } = await deploy(['A', 'B', 'C']);
    const skips = () => instances.flatMap(({ reports }) => reports.filter(({ outcome }) => outcome === 'skipped'));
    await eventually(() => firesOf(sql).length >= 3 && skips().length >= 6, { timeoutMs: 40_000 });
    expect(checkDraws(sql, firesOf(sql), true)).toEqual([]);
  }, 60_000);

  it('is drawn by another instance, with a greater token, after the winner was killed while it drew', async () => {
    const deployment = await deploy(['A', 'B', 'C'], LONG_DRAWS);
    const { sql } = deployment;
    const { winner, fencingToken } = await firstToDraw(deployment);
    await winner.kill();
    await laterDraw(deployment, fencingToken);

    expect(sql.prepare('SELECT id FROM draws WHERE fencing_token = ?').all(fencingToken)).toEqual([]);
    expect(winnersWithoutDraw(sql)).toEqual([]);
    expect(checkDraws(sql, firesOf(sql), true)).toEqual([]);
  }, 90_000);

  it('does not record the draw of a winner that was stopped for longer than its lease', async () => {
    const deployment = await deploy(['A', 'B'], LONG_DRAWS);
    const { winner, fencingToken } = await firstToDraw(deployment);
    winner.process.kill('SIGSTOP');
    await laterDraw(deployment, fencingToken);
    winner.process.kill('SIGCONT');

    const count = winner.reports.length;
    await eventually(() => winner.reports.length > count);
    expect(deployment.sql.prepare('SELECT id FROM draws WHERE fencing_token = ?').all(fencingToken)).toEqual([]);
  }, 90_000);
});
