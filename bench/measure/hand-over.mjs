import { BASELINE } from '../candidates/index.mjs';
import { median, quantile } from './figures.mjs';
import { startSide } from './side.mjs';

const PROCESSES = 2;
const HOLD_MS = 2;

/** Measures the time from a call of `release` to the grant in the other process, in round trips of the baseline. */
export async function handOver({ candidates, ms, rounds }, { servers: [{ port }], watch }) {
  const rows = [];
  const baseline = await startSide(BASELINE, { port });
  try {
    for (const name of candidates) {
      const sides = await Promise.all(Array.from({ length: PROCESSES }, () => startSide(name, { port })));
      const latencies = [];
      const roundTrips = [];
      let turns = 0;
      for (let round = 0; round < rounds; round++) {
        await watch.clear();
        const { times } = await baseline.run('loop', { callers: 1, ms: ms / 2 });
        roundTrips.push(times.p50 / 2);
        const all = await Promise.all(sides.map((side) => side.run('turns', { ms, holdMs: HOLD_MS })));
        turns += all.flat().length;
        latencies.push(...latenciesOf(all.flat()));
      }
      await Promise.all(sides.map((side) => side.end()));
      const [p50, p99] = latencies.length > 0 ? [0.5, 0.99].map((share) => quantile(latencies, share)) : [NaN, NaN];
      const roundTrip = median(roundTrips);
      rows.push({
        name,
        p50,
        p99,
        inRoundTrips: p50 / roundTrip,
        p99InRoundTrips: p99 / roundTrip,
        changes: latencies.length / turns,
      });
    }
  } finally {
    await baseline.end();
  }
  return rows;
}

/** Only turns that went to another process. */
function latenciesOf(turns) {
  const sorted = turns.toSorted((a, b) => a.grantedAt - b.grantedAt);
  return sorted
    .slice(1)
    .flatMap((turn, i) => (turn.pid === sorted[i].pid ? [] : [turn.grantedAt - sorted[i].releasedAt]));
}
