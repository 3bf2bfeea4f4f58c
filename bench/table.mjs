import { isOwn } from './candidates/index.mjs';

const number = (value) =>
  Number.isFinite(value) ? value.toLocaleString('en', { maximumSignificantDigits: 3 }) : 'none';
const ratio = (value) => value.toFixed(2);
const spread = ({ median, low, high }, text = ratio) => `${text(median)} (${text(low)}–${text(high)})`;
const within = (field, text) => (row) => (row[field] ? spread(row[field], text) : '');
/** A figure, and its ratio to the baseline. */
const beside = (field) => (row) => number(row[field]) + (row.ratios ? ` (${ratio(row.ratios[field].median)}×)` : '');
const plain = (field) => (row) => number(row[field]);

const COMPARED = {
  'a second': plain('rate'),
  'of the baseline': ({ ratios }) => (ratios ? spread(ratios.rate) : '1'),
  'p50, ms': beside('p50'),
  'p99, ms': beside('p99'),
  'client CPU, µs': beside('clientMicros'),
  'Redis CPU, µs': beside('redisMicros'),
  commands: plain('commands'),
  'redis.call': plain('scriptCalls'),
  promises: plain('promises'),
  timers: plain('timers'),
  bytes: plain('bytes'),
  failures: plain('failures'),
};
const HOT = {
  ...COMPARED,
  'longest wait, in medians': plain('patience'),
  'largest share of a process': plain('share'),
};

const WORK = { 'share of time held': ({ held }) => ratio(held), ...HOT };

/** What a document has of a comparison; `npm run bench -- NAME` prints all columns. */
const BRIEF = {
  'a second': plain('rate'),
  'of the baseline': ({ ratios }) => (ratios ? ratio(ratios.rate.median) : '1'),
  'p50, ms': plain('p50'),
  'p99, ms': plain('p99'),
  'client CPU, µs': plain('clientMicros'),
  'Redis CPU, µs': plain('redisMicros'),
  commands: plain('commands'),
};
const { 'p99, ms': _p99, ...NOT_HOT } = BRIEF;
const BRIEF_HOT = {
  hot: { ...NOT_HOT, 'longest wait, in medians': HOT['longest wait, in medians'] },
  work: { 'share of time held': WORK['share of time held'], ...NOT_HOT },
};

const COLUMNS = {
  compare: COMPARED,
  hot: HOT,
  work: WORK,
  cluster: {
    'a second': plain('rate'),
    'of one master': within('growth'),
    'of the baseline on one master': COMPARED['of the baseline'],
    'client CPU, µs': beside('clientMicros'),
    'Redis CPU, µs': beside('redisMicros'),
    commands: plain('commands'),
    failures: plain('failures'),
  },
  handOver: {
    'p50, ms': plain('p50'),
    'p99, ms': plain('p99'),
    'p50, round trips': plain('inRoundTrips'),
    'p99, round trips': plain('p99InRoundTrips'),
    'turns that change the process': ({ changes }) => `${Math.round(100 * changes)} %`,
    failures: plain('failures'),
  },
  leases: {
    'commands a second': plain('perSecond'),
    'client CPU': ({ client }) => `${number(client)} %`,
    'Redis CPU': ({ redis }) => `${number(redis)} %`,
    'bytes of heap each': plain('heap'),
    'bytes in Redis each': plain('redisBytes'),
    lost: plain('lost'),
  },
  overhead: {
    'CPU, µs': ({ micros }) => spread(micros, number),
    promises: plain('promises'),
    bytes: plain('bytes'),
  },
  cycles: {
    cycles: plain('done'),
    'heap afterwards, KiB': plain('heapKiB'),
    'timers left': plain('timers'),
    'listeners left': plain('listeners'),
    'keys in Redis': plain('keys'),
    'of them without the name of a lock': plain('others'),
    'memory of Redis, KiB': plain('redisKiB'),
  },
  scripts: { value: ({ value, unit }) => `${number(value)} ${unit}` },
  capacity: { value: ({ value, unit }) => `${number(value)} ${unit}`.trim() },
  compiler: {
    methods: plain('methods'),
    'plain, s': ({ plain }) => spread(plain, number),
    'locked, s': ({ locked }) => spread(locked, number),
    ratio: ({ ratio }) => spread(ratio),
  },
};

/** The rows of a workload as a table in Markdown. */
export function table({ measure, loop }, rows) {
  return tableOf(COLUMNS[measure === 'compare' && loop.hot ? hotKind(loop) : measure], rows);
}

const hotKind = ({ call }) => (call === 'work' ? 'work' : 'hot');

/** How many other packages a document shows in a comparison. */
const OTHERS = 3;

/** The same for a document: fewer columns, and of the packages whose calls never gave up the fastest, each with its better delay. */
export function briefTable({ measure, loop }, rows) {
  if (measure === 'cycles')
    return tableOf(
      COLUMNS.cycles,
      rows.filter(({ name }) => isOwn(name)),
    );
  if (measure !== 'compare' && measure !== 'handOver') return tableOf(COLUMNS[measure], rows);
  const columns = measure === 'handOver' ? COLUMNS.handOver : loop.hot ? BRIEF_HOT[hotKind(loop)] : BRIEF;
  const speed = (row) => row.ratios?.rate.median ?? -row.p50;
  const others = new Map();
  for (const row of rows.filter(({ name, failures, failed }) => !isOwn(name) && !failures && !failed)) {
    const name = row.name.split(', ')[0];
    if (!others.has(name) || speed(row) > speed(others.get(name))) others.set(name, row);
  }
  const shown = [...others.values()].sort((one, other) => speed(other) - speed(one)).slice(0, OTHERS);
  const brief = rows.filter((row) => isOwn(row.name) || row.failed || shown.includes(row));
  return tableOf(columns, brief);
}

function tableOf(described, rows) {
  const columns = Object.entries(described);
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const failed = rows.filter((row) => row.failed);
  return [
    line(['', ...columns.map(([title]) => title)]),
    line(['---', ...columns.map(() => '---:')]),
    ...rows.filter((row) => !row.failed).map((row) => line([row.name, ...columns.map(([, text]) => text(row))])),
    ...failed.map(({ name, failed }) => `\nNot measured: ${name}: ${failed.replace(`${name}: `, '')}`),
  ].join('\n');
}
