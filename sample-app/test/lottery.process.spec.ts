import { eventually } from '../../test/support/waiting/eventually.js';
import type { Sql } from '../src/database/open-database.js';
import { checkDraws } from '../src/runner/check-draws.js';
import { cleanUp, deploy } from './support/instances.js';

const firesOf = (sql: Sql): number[] => sql.prepare('SELECT fire FROM draws ORDER BY id').pluck().all() as number[];

const winnersWithoutDraw = (sql: Sql): unknown[] =>
  sql.prepare('SELECT * FROM winners WHERE draw_id NOT IN (SELECT id FROM draws)').all();

/** A draw takes so long that a winner is killed in it, and not while it writes to the database. */
const LONG_DRAWS = { LOTTERY_LEASE_MS: '2000', LOTTERY_DRAW_MS: '5000' };

describe('the lottery', () => {
  afterEach(cleanUp);

  it('is drawn once per fire by three instances, with ten different winners', async () => {
    const { sql, instances } = await deploy(['A', 'B', 'C']);
    const skips = () => instances.flatMap(({ reports }) => reports.filter(({ outcome }) => outcome === 'skipped'));
    await eventually(() => firesOf(sql).length >= 3 && skips().length >= 6, { timeoutMs: 25_000 });
    expect(checkDraws(sql, firesOf(sql), true)).toEqual([]);
  }, 60_000);

  it('is drawn by another instance, with a greater token, after the winner was killed while it drew', async () => {
    const { sql, instances } = await deploy(['A', 'B', 'C'], LONG_DRAWS);
    const drawing = () => instances.find(({ reports }) => reports.at(-1)?.outcome === 'drawing');
    const winner = await eventually(drawing, { timeoutMs: 10_000 });
    const { fencingToken } = winner.reports.at(-1) as { fencingToken: number };
    await winner.kill();

    const select = 'SELECT fencing_token FROM draws WHERE instance <> ? AND fencing_token > ?';
    const laterDraw = () => sql.prepare(select).get(winner.name, fencingToken);
    await eventually(laterDraw, { timeoutMs: 40_000, message: 'Nobody drew after the winner had died' });
    expect(sql.prepare('SELECT id FROM draws WHERE fencing_token = ?').all(fencingToken)).toEqual([]);
    expect(winnersWithoutDraw(sql)).toEqual([]);
    expect(checkDraws(sql, firesOf(sql), true)).toEqual([]);
  }, 90_000);
});
