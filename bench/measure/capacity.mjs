// The throughput of one core of Redis, and the cost of locks, waiting calls, instances and names: the figures of docs/capacity.md.
import { setTimeout as sleep } from 'node:timers/promises';
import { startQuorum } from '../../scripts/topologies.mjs';
import { OURS, onNodeRedis } from '../candidates/index.mjs';
import { leases } from './leases.mjs';
import { countCommands, watchServers } from './server.mjs';
import { startSide } from './side.mjs';
import { sideBySide } from './side-by-side.mjs';
import { sum } from './figures.mjs';

const MICROS = 1e6;

/** Each part returns its rows: `[what, value, unit]`. */
const PARTS = { pairs, pairsOnNodeRedis, contended, held, waiting, instances, names, quorum };

export async function capacity({ ms, rounds }, redis) {
  const rows = [];
  for (const [part, measure] of Object.entries(PARTS)) {
    await redis.watch.clear();
    try {
      for (const [name, value, unit] of await measure(redis, { ms, rounds })) rows.push({ name, value, unit });
    } catch (error) {
      rows.push({ name: part, failed: error.message.split('\n')[0] });
    }
  }
  return rows;
}

const withSides = async (count, options, work, candidate = OURS) => {
  const sides = [];
  try {
    for (let i = 0; i < count; i++) sides.push(await startSide(candidate, options));
    return await work(sides);
  } finally {
    await Promise.all(sides.map((side) => side.end()));
  }
};

/** What Redis and the clients use while they work, for each call. */
async function useOf(sides, loop, { watch }) {
  await Promise.all(sides.map((side) => side.run('loop', { ...loop, ms: 1_000 })));
  const before = await watch.cpuMicros();
  const all = await Promise.all(sides.map((side) => side.run('loop', loop)));
  const redis = (await watch.cpuMicros()) - before;
  const calls = sum(all.map((one) => one.calls));
  return {
    calls,
    redis: redis / calls,
    client: sum(all.map(({ cpuMicros }) => cpuMicros)) / calls,
    rate: (1_000 * calls) / Math.max(...all.map(({ elapsedMs }) => elapsedMs)),
  };
}

function pairs(redis, { ms, rounds }) {
  return withSides(2, { port: redis.servers[0].port }, async (sides) => {
    const long = ms * rounds;
    const alone = await useOf(sides.slice(0, 1), { callers: 1, ms: long }, redis);
    const busy = await useOf(sides, { callers: 256, ms: long }, redis);
    return [
      ['Redis CPU of a pair, one caller', alone.redis, 'µs'],
      ['Redis CPU of a pair, 2 processes with 256 callers each', busy.redis, 'µs'],
      ['client CPU of a pair, 2 processes with 256 callers each', busy.client, 'µs'],
      ['pairs that one core of Redis carries', MICROS / busy.redis, 'a second'],
      ['pairs reached on this machine', busy.rate, 'a second'],
    ];
  });
}

/** What differs by client library: Redis gets the same commands. */
function pairsOnNodeRedis(redis, { ms, rounds }) {
  const measure = async (sides) => {
    const { client, rate } = await useOf(sides, { callers: 256, ms: ms * rounds }, redis);
    return [
      ['client CPU of a pair on node-redis, 2 processes with 256 callers each', client, 'µs'],
      ['such pairs reached on this machine', rate, 'a second'],
    ];
  };
  return withSides(2, { port: redis.servers[0].port }, measure, onNodeRedis(OURS));
}

function contended(redis, { ms, rounds }) {
  return withSides(4, { port: redis.servers[0].port }, async (sides) => {
    const { redis: micros, rate } = await useOf(sides, { callers: 8, hot: true, ms: ms * rounds }, redis);
    return [
      ['Redis CPU of a pair, 4 processes with 8 callers of one lock', micros, 'µs'],
      ['such pairs that one core of Redis carries', MICROS / micros, 'a second'],
      ['such pairs reached on this machine', rate, 'a second'],
    ];
  });
}

const LOCKS = 10_000;

async function held(redis) {
  const workload = { candidates: [OURS], locks: LOCKS, leaseMs: 30_000, periods: 1 };
  const [row] = await leases(workload, redis);
  return [
    ['commands for 10,000 leases of 30 s', row.perSecond, 'a second'],
    ['Redis CPU for 10,000 leases of 30 s', row.redis, '%'],
    ['client CPU for 10,000 leases of 30 s', row.client, '%'],
    ['such leases that one core of Redis carries', (100 * LOCKS) / row.redis, ''],
    ['memory of Redis of a held lock', row.redisBytes, 'bytes'],
    ['heap of a held lock', row.heap, 'bytes'],
    ['of 10,000 leases, lost', row.lost, ''],
  ];
}

const WAITING = 20_000;
const SETTLE_MS = 30_000;
const PATIENCE_MS = 120_000;
const WATCH_MS = 10_000;
const SERVE_MS = 60_000;

/** 20,000 calls in one process wait for a lock that another process holds. */
function waiting(redis) {
  const { servers, watch } = redis;
  return withSides(2, { port: servers[0].port, waitMs: 300_000 }, async ([holder, side]) => {
    await holder.run('acquireOne', { key: 'bench:crowd' });
    const memory = await watch.memory();
    const { heap } = await side.run('queueUp', { calls: WAITING, settleMs: SETTLE_MS, ms: PATIENCE_MS });
    const bytes = ((await watch.memory()) - memory) / WAITING;
    const before = await watch.cpuMicros();
    const idle = await side.run('idle', { ms: WATCH_MS });
    const micros = (await watch.cpuMicros()) - before;
    const stop = await countCommands(servers);
    await sleep(WATCH_MS);
    const { commands } = await stop();
    await holder.run('releaseOne');
    const end = await side.run('serve', { ms: SERVE_MS });
    return [
      ['heap of a waiting call, 20,000 calls in one process', heap, 'bytes'],
      ['memory of Redis of such a waiting call', bytes, 'bytes'],
      ['commands while 20,000 calls wait', (1_000 * commands) / WATCH_MS, 'a second'],
      ['client CPU while 20,000 calls wait', idle.cpuMicros / idle.elapsedMs / 10, '%'],
      ['Redis CPU while 20,000 calls wait', micros / idle.elapsedMs / 10, '%'],
      [`of 20,000 calls, served within ${SERVE_MS / 1_000} s`, end.served, ''],
      ['time until the last of them was served', end.elapsedMs / 1_000, 's'],
      ['of 20,000 calls, failed', end.failures, ''],
    ];
  });
}

const INSTANCES = 250;

/** 250 instances of two connections each, all for one lock. */
function instances({ servers, watch }, { ms, rounds }) {
  const options = { port: servers[0].port };
  return withSides(2, options, async (sides) => {
    const [memory, connections] = [await watch.memory(), await watch.connections()];
    const each = { name: OURS, options, count: INSTANCES / sides.length, ms: 60_000 };
    await Promise.all(sides.map((side) => side.run('openMore', each)));
    // An instance connects when it is used.
    await Promise.all(sides.map((side) => side.run('loopEach', { ms: 1 })));
    const opened = (await watch.connections()) - connections;
    const bytes = ((await watch.memory()) - memory) / opened;
    const before = await watch.cpuMicros();
    const stopIdle = await countCommands(servers);
    await sleep(WATCH_MS);
    const { commands: idle } = await stopIdle();
    const micros = (await watch.cpuMicros()) - before;
    const stop = await countCommands(servers);
    const all = (await Promise.all(sides.map((side) => side.run('loopEach', { ms: ms * rounds })))).flat();
    const { commands } = await stop();
    const calls = sum(all.map((one) => one.calls));
    await Promise.all(sides.map((side) => side.run('closeMore')));
    return [
      ['connections of 250 instances', opened, ''],
      ['memory of Redis of a connection', bytes, 'bytes'],
      ['commands of an idle instance', (1_000 * idle) / WATCH_MS / INSTANCES, 'a second'],
      ['Redis CPU of 250 idle instances', micros / WATCH_MS / 10, '%'],
      [
        'pairs when 250 instances want one lock',
        (1_000 * calls) / Math.max(...all.map((one) => one.elapsedMs)),
        'a second',
      ],
      ['commands of such a pair', commands / calls, ''],
      ['most pairs of one instance', Math.max(...all.map((one) => one.calls)), ''],
      ['fewest pairs of one instance', Math.min(...all.map((one) => one.calls)), ''],
      ['failures', sum(all.map(({ failures }) => failures)), ''],
    ];
  });
}

const NAMES = 200_000;

/** The records that stay for `keepMs` after the last use of a name. */
function names({ servers, watch }) {
  return withSides(1, { port: servers[0].port }, async ([side]) => {
    const memory = await watch.memory();
    await side.run('cycles', { count: NAMES, ms: 120_000 });
    const keys = await watch.keys();
    const bytes = ((await watch.memory()) - memory) / keys;
    return [
      ['idle names measured', keys, ''],
      ['memory of Redis of an idle name', bytes, 'bytes'],
      ['memory of Redis of 1,000,000 idle names', (bytes * 1e6) / 2 ** 20, 'MiB'],
    ];
  });
}

/** The costs that a quorum of five multiplies. */
async function quorum({ servers, watch }, { ms, rounds }) {
  const five = await startQuorum(5);
  const redis = { servers: five.servers, watch: watchServers(five.servers) };
  try {
    const teams = [
      { name: 'one', candidate: OURS, redis: { servers, watch }, options: { port: servers[0].port } },
      { name: 'five', candidate: OURS, redis, options: { connection: five.connection } },
    ];
    const [one, many] = await sideBySide(teams, { loop: { callers: 64 }, ms, rounds });
    return [
      ['client CPU of a pair on a quorum of five, relative to one Redis', many.ratios.clientMicros.median, '×'],
      ['Redis CPU of all five', many.ratios.redisMicros.median, '×'],
      ['rate', many.ratios.rate.median, '×'],
      ['commands', many.commands / one.commands, '×'],
    ];
  } finally {
    redis.watch.close();
    await five.stop();
  }
}
