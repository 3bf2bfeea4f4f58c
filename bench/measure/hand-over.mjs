import { BASELINE, isOwn } from '../candidates/index.mjs';
import { median, quantile } from './figures.mjs';
import { startSide } from './side.mjs';
import { warmUp } from './side-by-side.mjs';

const PROCESSES = 2;
const HOLD_MS = 2;

/**
 * Measures the time from a call of `release` to the grant in the other process, in round trips of the baseline: one median for all
 * candidates, of what was measured between them.
 */
export async function handOver({ candidates, ms, rounds }, { servers: [{ port }], watch }) {
  const rows = [];
  const roundTrips = [];
  const baseline = await startSide(BASELINE, { port });
  try {
    await warmUp({ sides: [baseline] }, { loop: { callers: 1 }, ms });
    for (const name of candidates) {
      const sides = [];
      try {
        for (let i = 0; i < PROCESSES; i++) sides.push(await startSide(name, { port }));
        await warmUp({ sides }, { loop: { callers: 1, hot: true }, ms });
        rows.push({ name, ...(await turnsOf(sides, baseline, roundTrips, { watch, ms, rounds })) });
      } catch (error) {
        if (isOwn(name)) throw error;
        rows.push({ name, failed: error.message.split('\n')[0] });
      } finally {
        await Promise.all(sides.map((side) => side.end()));
      }
    }
  } finally {
    await baseline.end();
  }
  const roundTrip = median(roundTrips);
  return rows.map((row) =>
    row.failed ? row : { ...row, inRoundTrips: row.p50 / roundTrip, p99InRoundTrips: row.p99 / roundTrip },
  );
}

/** Adds what it measures of the baseline to `roundTrips`. */
async function turnsOf(sides, baseline, roundTrips, { watch, ms, rounds }) {
  const latencies = [];
  let [turns, failures] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    await watch.clear();
    roundTrips.push(...(await baseline.run('roundTrips', { ms: ms / 2, holdMs: HOLD_MS })));
    const all = await Promise.all(sides.map((side) => side.run('turns', { ms, holdMs: HOLD_MS })));
    const both = all.flatMap((one) => one.turns);
    turns += both.length;
    failures += all[0].failures + all[1].failures;
    latencies.push(...latenciesOf(both));
  }
  const [p50, p99] = latencies.length > 0 ? [0.5, 0.99].map((share) => quantile(latencies, share)) : [NaN, NaN];
  return { p50, p99, changes: latencies.length / turns, failures };
}

/** Only turns that went to another process. */
function latenciesOf(turns) {
  const sorted = turns.toSorted((a, b) => a.grantedAt - b.grantedAt);
  return sorted
    .slice(1)
    .flatMap((turn, i) => (turn.pid === sorted[i].pid ? [] : [turn.grantedAt - sorted[i].releasedAt]));
}
