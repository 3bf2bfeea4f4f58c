// Candidates side by side: each slice of one lies between two slices of the baseline.
import { BASELINE } from '../candidates/index.mjs';
import { mean, spreadOf, sum } from './figures.mjs';
import { countCommands } from './server.mjs';
import { startSide } from './side.mjs';

const COUNT_MS = 300;

/**
 * Measures one workload.
 * @param {{ candidates: string[], processes?: number, options?: object, loop: object, ms: number, rounds: number }} workload
 *   `loop` is what each process does, for `ms` at a time.
 * @param {{ servers: { port: number }[], watch: ReturnType<typeof import('./server.mjs').watchServers> }} redis
 * @returns one row for each candidate, with the median of its slices; ratios are medians with quartiles
 */
export async function compare(workload, redis) {
  const { candidates, rounds } = workload;
  const names = [BASELINE, ...candidates.filter((name) => name !== BASELINE)];
  const teams = [];
  try {
    for (const name of names) teams.push(await startTeam(name, workload, redis));
    const [baseline, ...others] = teams;
    for (const team of teams) await sliceOf(team, workload, redis);
    for (let round = 0; round < rounds; round++) {
      let before = await sliceOf(baseline, workload, redis);
      baseline.slices.push(before);
      for (const team of others) {
        const slice = await sliceOf(team, workload, redis);
        const after = await sliceOf(baseline, workload, redis);
        baseline.slices.push(after);
        team.slices.push({ ...slice, ...ratiosOf(slice, [before, after]) });
        before = after;
      }
    }
    const rows = [];
    for (const team of teams) rows.push({ ...rowOf(team), ...(await countsOf(team, workload, redis)) });
    return rows;
  } finally {
    await Promise.all(teams.map((team) => team.end()));
  }
}

async function startTeam(name, { processes = 1, options }, { servers: [{ port }] }) {
  const sides = await Promise.all(Array.from({ length: processes }, () => startSide(name, { port, ...options })));
  return { name, sides, slices: [], end: () => Promise.all(sides.map((side) => side.end())) };
}

async function sliceOf({ sides }, { loop, ms }, { watch }) {
  await watch.clear();
  const before = await watch.cpuMicros();
  const all = await Promise.all(sides.map((side) => side.run('loop', { ...loop, ms })));
  const redisMicros = (await watch.cpuMicros()) - before;
  const calls = sum(all.map((one) => one.calls));
  const per = (value) => (calls === 0 ? Infinity : value / calls);
  return {
    rate: (1_000 * calls) / Math.max(...all.map(({ elapsedMs }) => elapsedMs)),
    p50: mean(all.map(({ times }) => times.p50)),
    p99: Math.max(...all.map(({ times }) => times.p99)),
    clientMicros: per(sum(all.map(({ cpuMicros }) => cpuMicros))),
    redisMicros: per(redisMicros),
    failures: sum(all.map(({ failures }) => failures)),
    patience: Math.max(...all.map(({ waits }) => waits.max)) / mean(all.map(({ waits }) => waits.p50)),
    share: Math.max(...all.map((one) => (one.calls * sides.length) / calls)),
  };
}

const RATIOS = ['rate', 'p50', 'p99', 'clientMicros', 'redisMicros'];

const ratiosOf = (slice, neighbours) => ({
  ratios: Object.fromEntries(RATIOS.map((name) => [name, slice[name] / mean(neighbours.map((one) => one[name]))])),
});

function rowOf({ name, slices }) {
  const all = (field) => spreadOf(slices.map((slice) => slice[field])).median;
  const figures = Object.keys(slices[0]).filter((field) => field !== 'ratios' && field !== 'failures');
  const row = { name, ...Object.fromEntries(figures.map((field) => [field, all(field)])) };
  row.failures = sum(slices.map(({ failures }) => failures));
  if (slices[0].ratios)
    row.ratios = Object.fromEntries(
      RATIOS.map((field) => [field, spreadOf(slices.map(({ ratios }) => ratios[field]))]),
    );
  return row;
}

/** Counts per call: the times of these slices are not used, since counting costs time. */
async function countsOf({ sides }, { loop }, { servers }) {
  const stop = await countCommands(servers);
  const all = await Promise.all(sides.map((side) => side.run('loop', { ...loop, ms: COUNT_MS })));
  const { commands, scriptCalls } = await stop();
  const calls = sum(all.map((one) => one.calls));
  const [{ promises, timers, ticks }] = await onAll(sides, 'count', loop);
  const [{ bytes }] = await onAll(sides, 'allocate', loop);
  return { commands: commands / calls, scriptCalls: scriptCalls / calls, promises, timers, ticks, bytes };
}

const onAll = (sides, task, loop) => Promise.all(sides.map((side) => side.run(task, { ...loop, ms: COUNT_MS })));
