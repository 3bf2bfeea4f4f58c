import { eventually, eventuallyPasses } from '../../test/support/waiting/eventually.js';
import { cleanUp, deploy } from './support/instances.js';

/** A draw takes so long that a winner is stopped in it, and not while it writes to the database. */
const LONG_DRAWS = { LOTTERY_LEASE_MS: '2000', LOTTERY_DRAW_MS: '5000' };

describe('the lottery', () => {
  afterEach(cleanUp);

  it('does not record the draw of a winner that was stopped for longer than its lease', async () => {
    const { sql, instances } = await deploy(['A', 'B'], LONG_DRAWS);
    const drawing = () => instances.find(({ reports }) => reports.at(-1)?.outcome === 'drawing');
    const winner = await eventually(drawing, { timeoutMs: 10_000 });
    const { fencingToken } = winner.reports.at(-1) as { fencingToken: number };
    winner.process.kill('SIGSTOP');
    const laterDraw = () => sql.prepare('SELECT id FROM draws WHERE fencing_token > ?').get(fencingToken);
    await eventually(laterDraw, { timeoutMs: 40_000, message: 'Nobody drew while the winner was stopped' });
    winner.process.kill('SIGCONT');

    const count = winner.reports.length;
    await eventuallyPasses(() => expect(winner.reports.length).toBeGreaterThan(count));
    expect(sql.prepare('SELECT id FROM draws WHERE fencing_token = ?').all(fencingToken)).toEqual([]);
  }, 90_000);
});
