// The goals of this package, relative to the baseline and the best other package, and what limits it where it misses one.
import { BASELINE, EARLY, OURS, OUR_COMMANDS, TOKEN_IN_LIST, isOwn } from './candidates/index.mjs';

const short = (value) => value.toLocaleString('en', { maximumSignificantDigits: 3 });

const rateOf = ({ ratios }) => ratios.rate.median;

/** Relative to the best other package, without those whose calls gave up: they ended early. */
function besideBestPeer(ours, rows) {
  const peers = rows.filter(({ name, ratios, failures }) => !isOwn(name) && ratios && !failures);
  return rateOf(ours) / Math.max(...peers.map(rateOf));
}

/** What a call takes of both sides. */
function costs(ours, rows) {
  const hand = rows.find(({ name }) => name === BASELINE);
  const of = ({ clientMicros, redisMicros, bytes }) =>
    `${short(clientMicros)} µs of the client, ${short(redisMicros)} µs of Redis and ${short(bytes)} bytes of objects`;
  return `a pair takes ${of(ours)}; by hand, ${of(hand)}`;
}

/** The cost of our commands and scripts without the rest of the library. */
function alone(_ours, rows) {
  const { ratios, clientMicros } = rows.find(({ name }) => name === OUR_COMMANDS);
  const its = `${short(ratios.rate.median)} of the rate, ${short(clientMicros)} µs of the client, ${short(ratios.redisMicros.median)} of the CPU of Redis`;
  return `its own commands, sent by hand, have ${its}`;
}

/** For a lock with many callers. */
const waits = ({ p50, p99, commands }) =>
  `half of the calls wait ${short(p50)} ms, and 99 % up to ${short(p99)} ms: ${turnsOf({ commands })}, and a late answer delays all waiters`;

/** Each turn costs one command: it releases the lock, and asks for it again. */
const turnsOf = ({ commands }) => `Redis gets one command for ${short(1 / commands)} calls`;

/** One lock in one process. */
const localTurns = (ours) => `${turnsOf(ours)}, since a grant reserves that number of tokens`;

/** One lock in several processes. */
const sharedTurns = (ours) =>
  `${turnsOf(ours)}, the calls that waited when their process got it; with longer turns, the others would wait longer than 3 medians`;

const roundTrips = (_ours, rows) => {
  const of = (one) => {
    const { inRoundTrips, p99InRoundTrips } = rows.find(({ name }) => name === one);
    return `${short(inRoundTrips)} at p50, ${short(p99InRoundTrips)} at p99`;
  };
  return `a token in a list (not a lock): ${of(TOKEN_IN_LIST)}; by hand, which polls: ${of(BASELINE)}`;
};

const made = ({ promises, bytes }) =>
  `each call makes ${short(promises)} promises and ${short(bytes)} bytes of objects`;

const held = () =>
  'its handle and its hold, its place among the holds and on the wheel, and the texts of its key and its attempt';

const renewals = ({ client, perSecond }) =>
  `${short((client * 10_000) / perSecond)} µs for each command, which renews up to 64 leases: their operands, their replies and their places on the wheel`;

const kept = ({ timers, listeners }) => `${timers} timers and ${listeners} listeners are left`;

const seconds = ({ plain, locked }) => `${short(locked.median)} s; with plain decorators, ${short(plain.median)} s`;

const figureOf = (rows, name) => rows.find((row) => row.name === name).value;
const ofFree = (kind) => (_row, rows) =>
  figureOf(rows, `CPU of a pair, ${kind}`) / figureOf(rows, 'CPU of a pair, free');
const figure = (name) => (_row, rows) => figureOf(rows, name);
const pairsInScripts = (_row, rows) =>
  `a free pair takes ${short(figureOf(rows, 'CPU of a pair, free'))} µs of Redis; by hand, ${short(figureOf(rows, 'CPU of a pair, by hand'))} µs`;
const inHash = () => 'a hash with the state, the last ended attempts, and the text of the last holder';
const inCommands = () => 'the state and the record of a waiter, the message of the grant, and the last ended attempts';

const isLast = ({ name }) => name.startsWith(OURS) && name.endsWith('3 masters');
const clientOf = (rows, name) => rows.find((row) => row.name === name).clientMicros;

/** `value`: of our row, which has our name unless `row` names another. `limit`: what limits it, by the counts. */
const GOALS = [
  { workload: 'one-caller', figure: 'rate, of the baseline', least: 0.85, value: rateOf, limit: alone },
  { workload: 'one-caller', figure: 'rate with `awaitRelease: false`, of the baseline', least: 1.4, value: rateOf, limit: alone, row: ({ name }) => name === EARLY }, // prettier-ignore
  { workload: 'one-caller', figure: 'CPU of Redis, of the baseline', most: 1.5, value: ({ ratios }) => ratios.redisMicros.median, limit: alone }, // prettier-ignore
  { workload: '64-callers', figure: 'rate, of the baseline', least: 1.8, value: rateOf, limit: costs },
  { workload: '64-callers', figure: 'CPU of Redis, of the baseline', most: 1, value: ({ ratios }) => ratios.redisMicros.median, limit: costs }, // prettier-ignore
  { workload: '512-callers', figure: 'rate, of the baseline', least: 3, value: rateOf, limit: costs },
  {
    workload: 'hot-64',
    figure: 'rate, of the best other package',
    least: 50,
    value: besideBestPeer,
    limit: localTurns,
  },
  { workload: 'hot-64', figure: 'commands', most: 0.05, value: ({ commands }) => commands, limit: costs },
  { workload: 'hot-64', figure: 'longest wait, in medians', most: 3, value: ({ patience }) => patience, limit: waits },
  {
    workload: 'hot-4x8',
    figure: 'rate, of the best other package',
    least: 3,
    value: besideBestPeer,
    limit: sharedTurns,
  },
  { workload: 'hot-4x8', figure: 'commands', most: 1, value: ({ commands }) => commands, limit: costs },
  { workload: 'hot-4x8', figure: 'largest share of a process', most: 2, value: ({ share }) => share, limit: costs },
  { workload: 'hot-4x8', figure: 'longest wait, in medians', most: 3, value: ({ patience }) => patience, limit: waits },
  { workload: 'work-1ms', figure: 'share of time held', least: 0.85, value: ({ held }) => held, limit: sharedTurns },
  { workload: 'work-5ms', figure: 'share of time held', least: 0.97, value: ({ held }) => held, limit: sharedTurns },
  {
    workload: 'hand-over',
    figure: 'p50, in round trips',
    most: 1.2,
    value: (row) => row.inRoundTrips,
    limit: roundTrips,
  },
  {
    workload: 'hand-over',
    figure: 'p99, in round trips',
    most: 3,
    value: (row) => row.p99InRoundTrips,
    limit: roundTrips,
  },
  { workload: 'hand-over', figure: 'p50, of a token in a list', most: 1.6, value: (row, rows) => row.p50 / rows.find(({ name }) => name === TOKEN_IN_LIST).p50, limit: roundTrips }, // prettier-ignore
  { workload: 'scripts', figure: 'CPU of a contended pair, of a free one', most: 2, value: ofFree('contended, 8 wait'), limit: pairsInScripts, row: () => true }, // prettier-ignore
  { workload: 'scripts', figure: 'CPU of a read pair, of a free one', most: 1.3, value: ofFree('read, alone'), limit: pairsInScripts, row: () => true }, // prettier-ignore
  { workload: 'scripts', figure: 'bytes to a replica of a contended pair', most: 700, value: figure('bytes to a replica of a pair, contended, 8 wait'), limit: inCommands, row: () => true }, // prettier-ignore
  { workload: 'scripts', figure: 'memory of an idle free lock, bytes', most: 180, value: figure('memory of an idle free lock'), limit: inHash, row: () => true }, // prettier-ignore
  { workload: 'leases-30s', figure: 'commands a second', most: 20, value: ({ perSecond }) => perSecond, limit: held },
  { workload: 'leases-30s', figure: 'bytes of heap each', most: 600, value: ({ heap }) => heap, limit: held },
  { workload: 'leases-30s', figure: 'CPU of the client, %', most: 2, value: ({ client }) => client, limit: renewals },
  { workload: 'nested', figure: 'CPU, µs', most: 2, value: ({ micros }) => micros.median, limit: made },
  { workload: 'decorator', figure: 'CPU, µs', most: 5, value: ({ micros }) => micros.median, limit: made },
  { workload: 'leaks', figure: 'heap afterwards, KiB', most: 5 * 1_024, value: ({ heapKiB }) => heapKiB, limit: kept },
  { workload: 'cluster', figure: 'CPU of the client with 3 masters, of that with one', most: 1.1, value: (row, rows) => row.clientMicros / clientOf(rows, `${OURS}, 1 master`), limit: made, row: isLast }, // prettier-ignore
  { workload: 'compiler', figure: 'time of tsc, of plain decorators', most: 1.15, value: ({ ratio }) => ratio.median, limit: seconds, row: () => true }, // prettier-ignore
];

const isOurs = ({ name }) => name === OURS;

/** The goals of the workloads that were measured, as a table in Markdown. */
export function goals(results) {
  const lines = GOALS.flatMap(({ workload, figure, least, most, value, limit, row = isOurs }) => {
    const rows = results.find(({ name }) => name === workload)?.rows;
    const ours = rows?.find(row);
    if (!ours) return [];
    const reached = value(ours, rows);
    const isReached = least === undefined ? reached <= most : reached >= least;
    const goal = least === undefined ? `at most ${short(most)}` : `at least ${short(least)}`;
    return [
      `| \`${workload}\` | ${figure} | ${goal} | ${short(reached)} | ${isReached ? 'reached' : limit(ours, rows)} |`,
    ];
  });
  return ['| workload | figure | goal | now | what limits it |', '| --- | --- | --- | ---: | --- |', ...lines].join(
    '\n',
  );
}
