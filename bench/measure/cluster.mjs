import { startCluster } from '../../scripts/topologies.mjs';
import { BASELINE, OURS } from '../candidates/index.mjs';
import { compare } from './compare.mjs';
import { watchServers } from './server.mjs';

/** Measures how the rate grows with the masters of a cluster. Its rows are those of `compare`, one for each size. */
export async function cluster({ loop, masters, ms, rounds }) {
  const rows = [];
  for (const count of masters) {
    const started = await startCluster({ masters: count, replicas: 0 });
    const watch = watchServers(started.masters);
    try {
      const options = { connection: started.connection };
      const workload = { candidates: [OURS], options, loop, ms, rounds };
      const all = await compare(workload, { servers: started.masters, watch });
      rows.push(...all.map((row) => ({ ...row, name: `${row.name}, ${count}` })));
    } finally {
      watch.close();
      await started.stop();
    }
  }
  return rows.toSorted((a, b) => Number(a.name.startsWith(BASELINE)) - Number(b.name.startsWith(BASELINE)));
}
