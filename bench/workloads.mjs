// The workloads. `peers` is what a short run compares with: the best peer of this workload in the last full run.
import { BASELINE, EARLY, OURS, OUR_COMMANDS, TOKEN_IN_LIST, WITH_HISTORY, onNodeRedis } from './candidates/index.mjs';

/** Peers whose defaults fit this workload. */
const POLLING = [
  'redlock 4',
  'redlock 5',
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  'murlock',
  '@redis-kit/lock',
];
const ALL = [...POLLING, 'redlock-universal, lean', 'simple-redis-mutex'];
/** As they come, and with another delay between two tries. */
const contenders = (delay) => [...POLLING.flatMap((name) => [name, `${name}, ${delay}`]), 'simple-redis-mutex'];
/** The longer most callers sleep, the more often one caller takes the lock repeatedly. */
const FOR_RATE = contenders('20 ms');
/** The highest rate of those on a hot key that had no failures. */
const GREEDIEST = '@redis-kit/lock, 20 ms';
const FOR_LATENCY = contenders('1 ms');

/** Ours on a client of node-redis, which is compared with the baseline on such a client. */
const ON_NODE_REDIS = [OURS, BASELINE].map(onNodeRedis);

const own = (callers, peers) => ({
  name: callers === 1 ? 'one-caller' : `${callers}-callers`,
  title: callers === 1 ? 'One caller, a free lock' : `${callers} callers, each with its own lock`,
  measure: 'compare',
  loop: { callers },
  candidates: [OURS, BASELINE, ...ON_NODE_REDIS],
  peers,
  all: ALL,
});

const hot = (callers, peers) => ({
  name: `hot-${callers}`,
  title: `One lock, ${callers} callers in one process`,
  measure: 'compare',
  loop: { callers, hot: true },
  peers,
  all: FOR_RATE,
});

/** The workloads; with `isAsked`, one runs only when it is named. */
export const WORKLOADS = [
  { ...own(1, ['redis-semaphore']), candidates: [OURS, EARLY, OUR_COMMANDS, BASELINE, ...ON_NODE_REDIS] },
  own(64, ['@redis-kit/lock']),
  own(512, ['@redis-kit/lock']),
  hot(2, ['redlock 5, 20 ms']),
  hot(8, [GREEDIEST]),
  { ...hot(64, [GREEDIEST]), candidates: [OURS, BASELINE, ...ON_NODE_REDIS] },
  hot(256, [GREEDIEST]),
  {
    ...hot(8, [GREEDIEST]),
    name: 'hot-4x8',
    title: 'One lock, 4 processes with 8 callers each',
    processes: 4,
  },
  ...[1, 5].map((workMs) => ({
    ...hot(8, [GREEDIEST]),
    name: `work-${workMs}ms`,
    title: `One lock, 4 processes with 8 callers each that work for ${workMs} ms: the share of time that it is held`,
    loop: { call: 'work', workMs, callers: 8, hot: true },
    processes: 4,
  })),
  {
    name: 'hand-over',
    title: 'Hand-over between two processes that want the same lock',
    measure: 'handOver',
    candidates: [OURS, BASELINE, TOKEN_IN_LIST],
    peers: ['redis-semaphore, 1 ms'],
    all: FOR_LATENCY,
  },
  {
    name: 'read-mostly',
    title: 'One read-write lock, 64 callers, of whom one in 20 writes',
    measure: 'compare',
    loop: { call: 'read or write', callers: 64, hot: true },
    // No peer has read locks: they lock for writing.
    peers: [GREEDIEST],
    all: FOR_RATE,
  },
  ...[1_000, 10_000].map((locks) => ({
    name: `leases-${locks}`,
    title: `${locks.toLocaleString('en')} leases of 3 s, for three lease periods`,
    measure: 'leases',
    locks,
    leaseMs: 3_000,
    periods: 3,
    peers: ['redis-semaphore'],
    all: ['redlock 5', '@sesamecare-oss/redlock', 'redis-semaphore', 'redlock-universal', '@redis-kit/lock'],
  })),
  {
    name: 'leases-30s',
    title: '10,000 leases of 30 s',
    measure: 'leases',
    locks: 10_000,
    leaseMs: 30_000,
    periods: 1,
    peers: [],
    all: ['redis-semaphore'],
  },
  {
    name: 'nested',
    title: 'A call in a call that holds the lock already',
    measure: 'overhead',
    calls: { plain: { call: 'decorated' }, more: { call: 'nested', inner: 100 }, per: 100 },
  },
  {
    name: 'decorator',
    title: 'A decorated method, compared with withLock',
    measure: 'overhead',
    calls: { plain: { call: 'withLock' }, more: { call: 'decorated' }, per: 1 },
  },
  {
    name: 'events',
    title: 'A listener on each event',
    measure: 'overhead',
    calls: { plain: { call: 'pair' }, more: { call: 'pair', isHeard: true }, per: 1 },
  },
  {
    name: 'history',
    title: '64 callers, each with its own lock: the history off and on',
    measure: 'compare',
    loop: { callers: 64 },
    candidates: [OURS, WITH_HISTORY],
    reference: OURS,
  },
  {
    name: 'leaks',
    title: '200,000 locks, each with its own key, taken and released',
    measure: 'cycles',
    count: 200_000,
    peers: ['redis-semaphore'],
    all: ALL,
  },
  {
    name: 'cluster',
    title: '512 callers on a Cluster of 1, 2 and 3 masters',
    measure: 'cluster',
    loop: { callers: 512 },
    masters: [1, 2, 3],
  },
  {
    name: 'compiler',
    title: '300 locked methods, compared with 300 with a plain decorator',
    measure: 'compiler',
    methods: 300,
  },
  {
    name: 'scripts',
    title: 'What pairs of commands cost the server',
    measure: 'scripts',
  },
  {
    name: 'capacity',
    title: 'What one core of Redis carries, and what locks, calls and instances cost',
    measure: 'capacity',
    isAsked: true,
  },
].map((one) => ({ candidates: [OURS, BASELINE], ...one }));
