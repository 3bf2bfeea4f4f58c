import { AGAIN, BASELINE, isOnNodeRedis, isOwn, onNodeRedis } from '../candidates/index.mjs';
import { sideBySide } from './side-by-side.mjs';

/** The number of peers that are measured at a time: their processes stay open from round to round. */
const GROUP = 5;

/**
 * Compares candidates with the baseline on the same library of clients, on one server. With a `reference`, that is the first of the
 * candidates, and stands for the baseline.
 */
export async function compare({ candidates, processes, reference, ...workload }, redis) {
  const rows = [];
  for (const group of reference ? [candidates] : groupsOf(candidates)) {
    const teams = group.map((name) => ({ name, processes, redis, options: { port: redis.servers[0].port } }));
    const [baseline, ...others] = await sideBySide(teams, workload);
    const isKnown = rows.some(({ name }) => name === baseline.name);
    rows.push(...(isKnown ? [] : [baseline]), ...others);
  }
  return rows;
}

/** Those that are measured together; the first of each group is its baseline. */
function groupsOf(candidates) {
  const others = candidates.filter((name) => isOwn(name) && name !== BASELINE && !isOnNodeRedis(name));
  const own = [BASELINE, AGAIN, ...others];
  const peers = candidates.filter((name) => !isOwn(name));
  const groups = [[...own, ...peers.splice(0, GROUP + 1 - own.length)]];
  while (peers.length > 0) groups.push([BASELINE, ...peers.splice(0, GROUP)]);
  const onBaseline = onNodeRedis(BASELINE);
  const ofNodeRedis = candidates.filter((name) => isOnNodeRedis(name) && name !== onBaseline);
  if (ofNodeRedis.length > 0) groups.splice(1, 0, [onBaseline, ...ofNodeRedis]);
  return groups;
}
