// The cost of pairs of commands for the server: time in its scripts, bytes to replicas, memory. Its clients cost nothing here: commands are
// written by the built package, and sent many at a time.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { median } from './figures.mjs';

const require = createRequire(new URL('../../package.json', import.meta.url));
const { Redis } = require('ioredis');

/** Pairs cycle through these locks: two grants of one lock are further apart than the tokens that a writer reserves. */
const LOCKS = 16;
const PAIRS = 96;
const PIPELINES = 8;
/** Longer than all rounds take. */
const LEASE_MS = 300_000;
const CLIENT = 'benchclient1';
const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** @returns one row for each figure */
export async function scripts({ rounds }, { servers: [{ port }], watch }) {
  const redis = new Redis(port, '127.0.0.1');
  const listener = new Redis(port, '127.0.0.1');
  try {
    const commands = await commandsOf(redis);
    await listener.subscribe(`lock:wake:${CLIENT}`);
    const kinds = {
      'by hand': byHand(await redis.script('LOAD', DELETE)),
      free: pairsOf(commands, 'free', {}),
      'contended, 8 wait': pairsOf(commands, 'hot', { others: 8 }),
      'read, alone': pairsOf(commands, 'read', { mode: 'read' }),
      'read, with 8 others': pairsOf(commands, 'reads', { mode: 'read', others: 8, areBeside: true }),
    };
    const rows = [];
    const micros = await microsOf(redis, kinds, { rounds, watch });
    for (const [kind, value] of Object.entries(micros)) rows.push([`CPU of a pair, ${kind}`, value, 'µs']);
    rows.push(['memory of an idle free lock', await redis.memory('USAGE', 'lock:free0', 'SAMPLES', 0), 'bytes']);
    const bytes = await bytesOf(redis, port, kinds);
    for (const [kind, value] of Object.entries(bytes))
      rows.push([`bytes to a replica of a pair, ${kind}`, value, 'bytes']);
    return rows.map(([name, value, unit]) => ({ name, value, unit }));
  } finally {
    redis.disconnect();
    listener.disconnect();
  }
}

/** Writes the commands of the built package. */
async function commandsOf(redis) {
  const { ScriptCalls } = require('./dist/cjs/redis/codec/script-calls.js');
  const { RedisKeys } = require('./dist/cjs/redis/codec/redis-keys.js');
  const { createLockScripts } = require('./dist/cjs/redis/scripts/lock-scripts.js');
  const texts = createLockScripts();
  await redis.script('LOAD', texts.operate);
  const keys = new RedisKeys('lock:');
  const calls = new ScriptCalls(texts, keys, {
    keepMs: 600_000,
    channelPrefix: keys.channelPrefix,
    countReceivers: true,
  });
  const wordsOf = (operation, times) => {
    const { script, operands } = calls.alone(operation, times);
    return ['evalsha', script.sha1, ...operands];
  };
  const asked = { waiterLeaseMs: LEASE_MS, leaseMs: LEASE_MS, fair: true, permits: 0, holder: 'host:1 bench' };
  return {
    acquire(key, attempt, mode) {
      const micros = (Date.now() - 1_000) * 1_000;
      const times = { sentMicros: micros, untilMicros: micros + 60e6 };
      return wordsOf(calls.acquire({ ...asked, keys: [key], attempt, owner: undefined, mode }, 1_000, 0), times);
    },
    release(key, attempt) {
      const asked = { key, attempt, holdAtLeastMs: 0, leaseMs: LEASE_MS };
      return wordsOf(calls.release(asked, 1_000), { sentMicros: 0, untilMicros: 0 });
    },
  };
}

let lastAttempt = 0;
const newAttempt = () => `${CLIENT}.${String((lastAttempt += 1)).padStart(11, '0')}`;

function byHand(sha1) {
  return {
    before: [],
    pair(i) {
      const [key, token] = [`hand${i % LOCKS}`, newAttempt()];
      return [['set', key, token, 'PX', LEASE_MS, 'NX'], ['evalsha', sha1, 1, key, token]]; // prettier-ignore
    },
  };
}

/**
 * Pairs of an acquire and a release. With `others`, one attempt holds each lock and this number waits: each acquire joins the queue,
 * and each release hands the lock over. `areBeside`: the others are holders instead.
 */
function pairsOf({ acquire, release }, name, { mode = 'write', others = 0, areBeside = false }) {
  const lines = Array.from({ length: LOCKS }, () => Array.from({ length: others }, newAttempt));
  return {
    before: lines.flatMap((line, i) => line.map((attempt) => acquire(`${name}${i}`, attempt, mode))),
    pair(i) {
      const [key, line, attempt] = [`${name}${i % LOCKS}`, lines[i % LOCKS], newAttempt()];
      line.push(attempt);
      const done = areBeside ? line.pop() : line.shift();
      return [acquire(key, attempt, mode), release(key, done)];
    },
  };
}

/** The usual replies are texts, the others lists. */
const EXPECTED = /^(OK|1|(granted|busy|released)[ ,])/;

async function send(redis, commands) {
  for (const [error, reply] of await redis.pipeline(commands).exec()) {
    if (error || !EXPECTED.test(String(reply)))
      throw error ?? new Error(`The server replied ${JSON.stringify(reply)}.`);
  }
}

const pairs = ({ pair }) => Array.from({ length: PAIRS }, (_, i) => pair(i)).flat();

/** The CPU of the server, with what it takes to read commands: all kinds in turns, and the median of the slices of each. */
async function microsOf(redis, kinds, { rounds, watch }) {
  for (const { before } of Object.values(kinds)) if (before.length > 0) await send(redis, before);
  const slices = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
  // The first slices warm it up.
  for (let round = -2; round < rounds * 4; round++) {
    for (const [kind, one] of Object.entries(kinds)) {
      const before = await watch.cpuMicros();
      for (let i = 0; i < PIPELINES; i++) await send(redis, pairs(one));
      const micros = (await watch.cpuMicros()) - before;
      if (round >= 0) slices[kind].push(micros / PAIRS / PIPELINES);
    }
  }
  return Object.fromEntries(Object.entries(slices).map(([kind, all]) => [kind, median(all)]));
}

/** For a connection that registers as a replica, the server counts what it sends to replicas. */
async function bytesOf(redis, port, kinds) {
  const replica = connect(port, '127.0.0.1', () => replica.write('PSYNC ? -1\r\n'));
  replica.on('error', () => {});
  try {
    await once(replica, 'data');
    const offset = async () => Number(/master_repl_offset:(\d+)/.exec(await redis.info('replication'))[1]);
    const bytes = {};
    for (const [kind, one] of Object.entries(kinds)) {
      const before = await offset();
      await send(redis, pairs(one));
      bytes[kind] = ((await offset()) - before) / PAIRS;
    }
    return bytes;
  } finally {
    replica.destroy();
  }
}
