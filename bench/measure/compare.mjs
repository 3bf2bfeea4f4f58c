import { AGAIN, BASELINE, isOwn } from '../candidates/index.mjs';
import { sideBySide } from './side-by-side.mjs';

/** Peers are measured so many at a time: their processes stay open from round to round. */
const GROUP = 5;

/** Compares candidates with the baseline, on one server. */
export async function compare({ candidates, processes, ...workload }, redis) {
  const own = [AGAIN, ...candidates.filter((name) => name !== BASELINE && isOwn(name))];
  const peers = candidates.filter((name) => !isOwn(name));
  const rows = [];
  for (const group of [[...own, ...peers.splice(0, GROUP - own.length)], ...groupsOf(peers)]) {
    const teams = [BASELINE, ...group].map((name) => ({
      name,
      processes,
      redis,
      options: { port: redis.servers[0].port },
    }));
    const [baseline, ...others] = await sideBySide(teams, workload);
    rows.push(...(rows.length === 0 ? [baseline] : []), ...others);
  }
  return rows;
}

const groupsOf = (names) =>
  Array.from({ length: Math.ceil(names.length / GROUP) }, (_, i) => names.slice(i * GROUP, (i + 1) * GROUP));
