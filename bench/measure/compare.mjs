import { AGAIN, BASELINE } from '../candidates/index.mjs';
import { sideBySide } from './side-by-side.mjs';

/** Compares candidates with the baseline, on one server. */
export function compare({ candidates, processes, ...workload }, redis) {
  const names = [BASELINE, AGAIN, ...candidates.filter((name) => name !== BASELINE)];
  const teams = names.map((name) => ({ name, processes, redis, options: { port: redis.servers[0].port } }));
  return sideBySide(teams, workload);
}
