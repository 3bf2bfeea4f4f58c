// Teams side by side: each slice of one lies between two slices of the first team, the reference.
import { isOwn } from '../candidates/index.mjs';
import { mean, spreadOf, sum } from './figures.mjs';
import { countCommands } from './server.mjs';
import { startSide } from './side.mjs';

/** In a real app, the code has long been JIT-compiled: each process first makes this number of calls, within this number of slices. */
const WARM_UP = { count: 150_000, slices: 16 };

/** The limits of calls and of time for counts. */
const COUNTED = { count: 2_000, ms: 1_000 };

/**
 * @typedef {object} Team One or more processes of one candidate.
 * @property {string} name The name of its row.
 * @property {string} [candidate] The name by default.
 * @property {number} [processes]
 * @property {object} options How the candidate is opened.
 * @property {{ servers: { port: number }[], watch: ReturnType<typeof import('./server.mjs').watchServers> }} redis
 */

/**
 * Measures teams in turns. A peer that fails has a row with `failed`.
 * @param {Team[]} specs the first one is the reference
 * @param {{ loop: object, ms: number, rounds: number, counted?: { count: number, ms: number } }} workload `loop` is what each
 *   process does, for `ms` at a time
 * @returns one row for each team, with the medians of its slices; ratios to the reference are medians with quartiles
 */
export async function sideBySide(specs, workload) {
  const teams = specs.map((spec) => ({ candidate: spec.name, ...spec, sides: [], slices: [] }));
  try {
    for (const team of teams) await orFail(team, () => start(team));
    for (const team of teams) await orFail(team, () => warmUp(team, workload));
    for (let round = 0; round < workload.rounds; round++) await roundOf(teams, workload);
    const rows = [];
    for (const team of teams) {
      const counts = await orFail(team, () => countsOf(team, workload));
      rows.push(team.failed ? { name: team.name, failed: team.failed } : { ...rowOf(team), ...counts });
    }
    return rows;
  } finally {
    await Promise.all(teams.flatMap(({ sides }) => sides.map((side) => side.end())));
  }
}

async function start({ candidate, processes = 1, options, sides }) {
  for (let i = 0; i < processes; i++) sides.push(await startSide(candidate, options));
}

/** A peer that cannot do it is left out from there on; ours and the baseline must. */
async function orFail(team, work) {
  if (team.failed) return undefined;
  try {
    return await work();
  } catch (error) {
    if (isOwn(team.candidate)) throw error;
    [team.failed] = error.message.split('\n');
    await Promise.all(team.sides.splice(0).map((side) => side.end()));
    return undefined;
  }
}

async function roundOf([reference, ...others], workload) {
  let before = await sliceOf(reference, workload);
  reference.slices.push(before);
  for (const team of others) {
    const slice = await orFail(team, () => sliceOf(team, workload));
    if (!slice) continue;
    const after = await sliceOf(reference, workload);
    reference.slices.push(after);
    team.slices.push({ ...slice, ratios: ratiosOf(slice, [before, after]) });
    before = after;
  }
}

/** @param {{ sides: object[] }} team */
export const warmUp = (team, { loop, ms }) => loopAll(team, { ...loop, count: WARM_UP.count }, WARM_UP.slices * ms);

const loopAll = ({ sides }, loop, ms) => Promise.all(sides.map((side) => side.run('loop', { ...loop, ms })));

async function sliceOf({ sides, redis: { watch } }, { loop, ms }) {
  await watch.clear();
  // The processes have slept: the same time again is not measured. (Not on a hot key: there, callers may still wait long after its end.)
  if (!loop.hot) await loopAll({ sides }, loop, ms);
  const before = await watch.cpuMicros();
  const all = await loopAll({ sides }, loop, ms);
  const redisMicros = (await watch.cpuMicros()) - before;
  const calls = sum(all.map((one) => one.calls));
  const per = (value) => (calls === 0 ? Infinity : value / calls);
  return {
    rate: rateOf(all),
    p50: mean(all.map(({ times }) => times.p50)),
    p99: Math.max(...all.map(({ times }) => times.p99)),
    clientMicros: per(sum(all.map(({ cpuMicros }) => cpuMicros))),
    redisMicros: per(redisMicros),
    failures: sum(all.map(({ failures }) => failures)),
    held: sum(all.map(({ heldMs }) => heldMs)) / ms,
    patience: Math.max(...all.map(({ waits }) => waits.max)) / mean(all.map(({ waits }) => waits.p50)),
    share: Math.max(...all.map((one) => (one.calls * sides.length) / calls)),
  };
}

/** Calls a second: those that ended in time, until the last of them; those of slow candidates may all end later. */
function rateOf(all) {
  const inTime = sum(all.map((one) => one.inTime));
  if (inTime > 0) return (1_000 * inTime) / Math.max(...all.map(({ lastMs }) => lastMs));
  return (1_000 * sum(all.map(({ calls }) => calls))) / Math.max(...all.map(({ elapsedMs }) => elapsedMs));
}

const RATIOS = ['rate', 'p50', 'p99', 'clientMicros', 'redisMicros'];

const ratiosOf = (slice, neighbours) =>
  Object.fromEntries(RATIOS.map((name) => [name, slice[name] / mean(neighbours.map((one) => one[name]))]));

function rowOf({ name, slices }) {
  const all = (field) => spreadOf(slices.map((slice) => slice[field])).median;
  const figures = Object.keys(slices[0]).filter((field) => field !== 'ratios' && field !== 'failures');
  const row = { name, ...Object.fromEntries(figures.map((field) => [field, all(field)])) };
  row.failures = sum(slices.map(({ failures }) => failures));
  row.rates = slices.map(({ rate }) => rate);
  if (slices[0].ratios)
    row.ratios = Object.fromEntries(
      RATIOS.map((field) => [field, spreadOf(slices.map(({ ratios }) => ratios[field]))]),
    );
  return row;
}

/** Counts per call, in slices whose times are not used. */
async function countsOf({ sides, redis: { servers } }, { loop, counted = COUNTED }) {
  const onAll = (task) => Promise.all(sides.map((side) => side.run(task, { ...loop, ...counted })));
  const stop = await countCommands(servers);
  const all = await onAll('loop');
  const { commands, scriptCalls } = await stop();
  const calls = sum(all.map((one) => one.calls));
  const [{ promises, timers, ticks }] = await onAll('count');
  const [{ bytes }] = await onAll('allocate');
  return { commands: commands / calls, scriptCalls: scriptCalls / calls, promises, timers, ticks, bytes };
}
