import { startCluster } from '../../scripts/topologies.mjs';
import { BASELINE, OURS } from '../candidates/index.mjs';
import { spreadOf } from './figures.mjs';
import { watchServers } from './server.mjs';
import { sideBySide } from './side-by-side.mjs';

/** Measures clusters of several sizes side by side; `growth` is the rate relative to one master in the same round. */
export async function cluster({ masters, ...workload }) {
  const started = [];
  try {
    for (const count of masters) {
      const { connection, masters: servers, stop } = await startCluster({ masters: count, replicas: 0 });
      started.push({ count, connection, redis: { servers, watch: watchServers(servers) }, stop });
    }
    const teams = [BASELINE, OURS].flatMap((candidate) =>
      started.map(({ count, connection, redis }) => ({
        name: nameOf(candidate, count),
        candidate,
        redis,
        options: { connection },
      })),
    );
    return growthOf(await sideBySide(teams, workload), masters);
  } finally {
    for (const { redis, stop } of started) {
      redis.watch.close();
      await stop();
    }
  }
}

const nameOf = (candidate, masters) => `${candidate}, ${masters} ${masters === 1 ? 'master' : 'masters'}`;

function growthOf(rows, masters) {
  const one = rows.find(({ name }) => name === nameOf(OURS, masters[0]));
  return rows.map((row) => {
    // The reference of all ratios is the baseline with one master.
    if (row.name.startsWith(BASELINE)) return { ...row, growth: row.ratios?.rate };
    return { ...row, growth: row === one ? undefined : spreadOf(row.rates.map((rate, i) => rate / one.rates[i])) };
  });
}
