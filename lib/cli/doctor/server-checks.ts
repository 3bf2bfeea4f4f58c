import { sectionText } from '../../core/documentation.js';
import { type ClusterClient } from '../../redis/client/cluster.js';
import { isPassing, readableText } from '../../redis/connection/error-advice.js';
import { readServerFacts, spreadsKeys } from '../../redis/connection/server-facts.js';
import {
  type Finding,
  type ServerUse,
  SPREAD_KEYS,
  unsafetyOf,
  warningsOf,
} from '../../redis/connection/server-findings.js';
import { counted, shortDuration, inWordsOfTool, timeText } from '../output/text.js';
import { type CheckName, ok, problem, refusalOf, type Result, type Server, skipped, warn } from './servers.js';

/** The fields of INFO, as far as they are asked for. */
type Field = (name: string) => string | undefined;

export const fieldsOf =
  (info: string): Field =>
  (name) =>
    new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];

/** Whether the address is a proxy in front of several servers; without a result, it is not, or it is unknown. */
export async function checkSpreadKeys({ ask }: Server, keyPrefix: string): Promise<Result[]> {
  const evaluate = (text: string, keys: readonly string[]): Promise<unknown> =>
    ask((client) => client.evaluate(text, [keys.length, ...keys]));
  const isSpread = await spreadsKeys(evaluate, keyPrefix);
  if (isSpread === null) return [skipped('It is unknown whether this address is a proxy in front of several servers.')];
  if (!isSpread) return [];
  return [problem(SPREAD_KEYS.text, inWordsOfTool(SPREAD_KEYS.advice))];
}

/** Checks the facts in INFO that concern locks. `appendfsync`: the option of the server, if known. */
export function checkInfo(
  info: string,
  use: ServerUse,
  appendfsync?: string,
): Partial<Record<CheckName, readonly Result[]>> {
  const facts = readServerFacts(info);
  const field = fieldsOf(info);
  const unsafe = unsafetyOf(facts, use);
  const found: readonly Finding[] = unsafe ? [unsafe] : warningsOf(facts, use);
  const problems = (isAbout: (kind: string) => boolean): Result[] =>
    found.filter(({ kind }) => isAbout(kind)).map(({ text, advice }) => problem(text, inWordsOfTool(advice)));
  const ofServer = problems((kind) => kind !== 'eviction');
  const ofEviction = problems((kind) => kind === 'eviction');
  return {
    server: ofServer.length > 0 ? ofServer : [serverResult(field)],
    eviction: ofEviction.length > 0 ? ofEviction : [memoryResult(field)],
    persistence: [persistenceResult(field, appendfsync)],
    replication: replicationResults(field, info),
  };
}

function serverResult(field: Field): Result {
  const version = field('redis_version');
  if (version === undefined) {
    const advice = 'Check the permissions of the user (+info), and what answers there.';
    return skipped('This server does not report its facts (INFO).', advice);
  }
  const valkey = field('valkey_version');
  const name = valkey === undefined ? `Redis ${version}` : `Valkey ${valkey}`;
  const up = Number(field('uptime_in_seconds') ?? Number.NaN);
  const since = Number.isNaN(up) ? '' : `, up for ${shortDuration(up * 1_000)}`;
  return ok(`${name}, ${field('redis_mode') ?? 'standalone'}${since}: locks work with it.`);
}

const FULL = 0.9;

function memoryResult(field: Field): Result {
  const [limit, used] = [Number(field('maxmemory') ?? Number.NaN), Number(field('used_memory') ?? 0)];
  if (Number.isNaN(limit)) return skipped('This server does not report its memory limit (`maxmemory`).');
  if (limit === 0) return ok('There is no memory limit (`maxmemory 0`), so no lock is evicted.');
  const share = Math.round((100 * used) / limit);
  if (used > FULL * limit) {
    const text = `The memory is ${share} % full. When it is full, a server with noeviction refuses every lock (OOM).`;
    return warn(text, 'Raise `maxmemory`, or keep less in this server.');
  }
  return ok(`The policy is noeviction: no lock is evicted. The memory is ${share} % full.`);
}

const FORGETS =
  'The locks of that time are forgotten: others may be granted them before their holders learn of it at their next renewal.';

function persistenceResult(field: Field, appendfsync = 'everysec'): Result {
  const failed = ['rdb_last_bgsave_status', 'aof_last_bgrewrite_status', 'aof_last_write_status'].filter(
    (name) => (field(name) ?? 'ok') !== 'ok',
  );
  if (failed.length > 0) {
    const text = `The server could not write its data to the disk (${failed.join(', ')}), and may refuse locks (MISCONF).`;
    return problem(text, 'See the log of the server, and its disk.');
  }
  const aof = field('aof_enabled');
  if (aof === undefined) return skipped('This server does not report how it stores its data.');
  if (aof === '1' && appendfsync === 'no') {
    const text = `The append-only file is on, but \`appendfsync no\` leaves it to the system when to write it to the disk: a loss of power costs up to half a minute, or more. ${FORGETS}`;
    return warn(text, 'Use `appendfsync everysec`.');
  }
  if (aof === '1' && appendfsync === 'always') {
    return ok('The append-only file is on, with `appendfsync always`: a loss of power forgets no lock.');
  }
  if (aof === '1') {
    return ok(
      `The append-only file is on. With \`appendfsync everysec\`, a loss of power costs up to a second. ${FORGETS}`,
    );
  }
  const saved = Number(field('rdb_last_save_time') ?? 0);
  const last =
    saved > 0 ? ` (${timeText(new Date(saved * 1_000))}, or the start of the server if it has written none)` : '';
  const text = `The append-only file is off: a restart goes back to the last snapshot${last}. ${FORGETS}`;
  const advice =
    'If that matters, use `appendonly yes`, or let the protected resource check fencing tokens: they keep rising after a restart.';
  return warn(text, advice);
}

const LATE_SECONDS = 5;
const LATE_BYTES = 1_000_000;

function replicationResults(field: Field, info: string): Result[] {
  const offset = Number(field('master_repl_offset') ?? 0);
  const replicas = [...info.matchAll(/^slave\d+:(.*?)\r?$/gm)].map(([, text = '']) => {
    const of = (name: string): string => new RegExp(`(?:^|,)${name}=([^,]*)`).exec(text)?.[1] ?? '';
    const behind = Math.max(offset - Number(of('offset')), 0);
    return { name: `${of('ip')}:${of('port')}`, state: of('state'), lag: Number(of('lag')), behind };
  });
  if (field('role') === undefined) return [skipped('This server does not report its replicas.')];
  if (field('role') === 'slave') return [];
  if (replicas.length === 0) return [ok('There is no replica, so no failover can forget a lock.')];
  const late = replicas.filter(
    ({ state, lag, behind }) => state !== 'online' || lag > LATE_SECONDS || behind > LATE_BYTES,
  );
  const forgets = 'A failover forgets the grants that have not been copied yet';
  const advice = 'Use `minReplicas` or a quorum, or let the protected resource check fencing tokens.';
  if (late.length === 0) {
    return [ok(`${counted(replicas.length, 'replica')} in step. ${forgets}. ${advice}`)];
  }
  return late.map(({ name, state, lag, behind }) =>
    warn(
      `The replica ${name} is not in step (${state}, ${behind} bytes and ${lag} s behind). ${forgets}.`,
      `Check the replication. ${advice}`,
    ),
  );
}

/** How far the clock of a server is ahead of that of this machine, in milliseconds, with its uncertainty. */
export interface ClockOffset {
  readonly ms: number;
  readonly uncertaintyMs: number;
}

const TRIES = 5;

/** The best of some measurements. The answer may have come from any moment of its round trip. */
export async function clockOffset(server: Server): Promise<ClockOffset> {
  const offsets: ClockOffset[] = [];
  for (let count = 0; count < TRIES; count += 1) {
    const [wall, start] = [Date.now(), performance.now()];
    const micros = await server.ask((client) => client.time());
    const half = (performance.now() - start) / 2;
    offsets.push({ ms: micros / 1_000 - (wall + half), uncertaintyMs: half });
  }
  return offsets.reduce((best, one) => (one.uncertaintyMs < best.uncertaintyMs ? one : best));
}

const FAR_MS = 1_000;

const SYNCHRONIZE = 'Synchronize the clocks (NTP).';

/** The clock of a server against that of this machine. */
export function checkOffset({ ms, uncertaintyMs }: ClockOffset): Result {
  const within = `give or take ${Math.ceil(uncertaintyMs)} ms`;
  const apart = Math.abs(ms) - uncertaintyMs;
  if (apart < FAR_MS) {
    return ok(`The clock of the server and the one of this machine agree (${Math.round(Math.abs(ms))} ms, ${within}).`);
  }
  const text =
    `The clock of the server is ${shortDuration(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} the one of this machine (${within}). ` +
    'Leases are counted by the server alone, and stay right. A job with `oncePer` may name another fire, and the times that are ' +
    'printed here are those of the server.';
  return warn(text, SYNCHRONIZE);
}

const NODES_FAR_MS = 500;

/** The clocks of several servers against each other. */
export function checkSpread(offsets: readonly ClockOffset[]): Result {
  const sorted = [...offsets].sort((a, b) => a.ms - b.ms);
  const [first, last] = [sorted[0]!, sorted.at(-1)!];
  const apart = last.ms - first.ms - first.uncertaintyMs - last.uncertaintyMs;
  if (apart < NODES_FAR_MS) return ok('The clocks of the servers agree with each other.');
  const text =
    `The clocks of the servers are up to ${shortDuration(last.ms - first.ms)} apart. After a failover to a server whose clock is ` +
    'ahead, leases end early; to one that is behind, they end late.';
  return warn(text, SYNCHRONIZE);
}

const SLOTS = 16_384;
const FEWEST_MASTERS = 3;

export async function checkCluster(server: Server, cluster: ClusterClient): Promise<Result[]> {
  const info = await orNull(server.ask((client) => client.call(['CLUSTER', 'INFO'])));
  if (typeof info !== 'string') return [skipped('The user may not ask for the state of the cluster (+cluster|info).')];
  const field = fieldsOf(info);
  const [masters, nodes] = [cluster.nodes('master').length, cluster.nodes('all').length];
  const results: Result[] = [];
  if (field('cluster_state') !== 'ok' || Number(field('cluster_slots_ok')) < SLOTS) {
    const text = `The state of the cluster is ${field('cluster_state')}: ${field('cluster_slots_ok')} of ${SLOTS} slots are served. The locks of the others are refused.`;
    results.push(problem(text, 'Check the nodes that are down: CLUSTER NODES.'));
  }
  if (masters < FEWEST_MASTERS) {
    const text = `The cluster has ${masters} masters. With fewer than ${FEWEST_MASTERS}, no majority can replace one that fails.`;
    results.push(warn(text, 'Add masters.'));
  }
  if (nodes - masters < masters) {
    const text = `The cluster has ${masters} masters and ${nodes - masters} replicas. While a master without a replica is down, its locks are refused.`;
    results.push(warn(text, 'Add replicas.'));
  }
  if (results.length === 0) {
    results.push(ok(`All slots are served by ${masters} masters, with ${nodes - masters} replicas.`));
  }
  return [...results, ...(await ofOptions(server))];
}

/** An option of the server; undefined: many users, and most services, do not allow CONFIG. */
export async function optionOf(server: Server, name: string): Promise<string | undefined> {
  const reply = await orNull(server.ask((client) => client.call(['CONFIG', 'GET', name])));
  return Array.isArray(reply) ? (reply[1] as string | undefined) : undefined;
}

async function ofOptions(server: Server): Promise<Result[]> {
  const timeout = await optionOf(server, 'cluster-node-timeout');
  const isWhole = await optionOf(server, 'cluster-require-full-coverage');
  if (timeout === undefined) return [skipped('The options of the cluster are not visible to this user (+config|get).')];
  const covers =
    isWhole === 'yes'
      ? 'While one slot is not served, all locks are refused (`cluster-require-full-coverage yes`).'
      : 'While one slot is not served, the other locks work (`cluster-require-full-coverage no`).';
  const text = `A master counts as down after ${timeout} ms (\`cluster-node-timeout\`): a lock with a shorter lease is lost in a failover. ${covers}`;
  return [ok(text)];
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return null;
  }
}

/** A permission, and the effect of its absence. */
interface Right {
  readonly name: string;
  readonly without: string;
  /** Locks work without it, though not as well. */
  readonly isMinor?: true;
  readonly writes?: true;
  /** The call in a script that tests it without a trace. */
  readonly call: string;
}

const NO_LOCK = 'every lock is refused';

/** In this order, which leaves nothing behind. The channel is one that the user must be allowed to use. */
const IN_SCRIPTS: readonly Right[] = [
  { name: '+time', without: NO_LOCK, call: "'TIME'" },
  { name: '+hget', without: NO_LOCK, call: "'HGET', KEYS[1], 'doctor'" },
  { name: '+hmget', without: NO_LOCK, call: "'HMGET', KEYS[1], 'doctor'" },
  { name: '+hgetall', without: NO_LOCK, call: "'HGETALL', KEYS[1]" },
  {
    name: '+pubsub|numsub',
    without: 'a release does not hand a lock over, and waiters get it later',
    isMinor: true,
    call: "'PUBSUB', 'NUMSUB', ARGV[1]",
  },
  { name: '+hset', without: NO_LOCK, writes: true, call: "'HSET', KEYS[1], 'doctor', '1'" },
  { name: '+pexpire', without: NO_LOCK, writes: true, call: "'PEXPIRE', KEYS[1], '60000'" },
  {
    name: '+hdel',
    without: 'a lock that was waited for is never free again',
    writes: true,
    call: "'HDEL', KEYS[1], 'doctor'",
  },
  {
    name: '+publish and the channels',
    without: 'waiters are not woken, and poll',
    isMinor: true,
    writes: true,
    call: "'PUBLISH', ARGV[1], 'doctor'",
  },
];

const scriptOf = (rights: readonly Right[]): string => `local refused = {}
local function try(number, ...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then refused[#refused + 1] = number .. ' ' .. answer.err end
end
${rights.map(({ call }, i) => `try('${i}', ${call})`).join('\n')}
return refused`;

export const GIVE_RIGHTS = `Give the user the permissions of ${sectionText('rights')}.`;

export async function checkRights(server: Server, channel: string, readOnly: boolean): Promise<Result[]> {
  const rights = IN_SCRIPTS.filter(({ writes }) => !readOnly || !writes);
  const refused: Right[] = [];
  const passing: string[] = [];
  const tries: readonly (readonly [Right, () => Promise<unknown>])[] = [
    [
      { name: '+evalsha', without: NO_LOCK, call: '' },
      () => server.ask((one) => one.evaluateSha(NO_SHA, [1, server.storageKey])),
    ],
    [
      { name: '+eval', without: 'a server that was restarted refuses every lock', call: '' },
      async () => {
        const reply = await server.ask((one) => one.evaluate(scriptOf(rights), [1, server.storageKey, channel]));
        for (const [, number, text = ''] of (reply as string[]).map((line) => /^(\d+) ([^]*)$/.exec(line)!)) {
          // Without memory or replicas, the server also refuses permitted commands.
          if (isPassing(text)) passing.push(readableText(new Error(text)));
          else refused.push(rights[Number(number)]!);
        }
      },
    ],
    [
      { name: '+scan', without: '`list()` and `ls` list nothing', isMinor: true, call: '' },
      () => server.ask((one) => one.scan('0', server.storageKey, 1)),
    ],
  ];
  for (const [right, attempt] of tries) {
    await attempt().catch((error: unknown) => {
      const text = refusalOf(error);
      if (text === null) throw error;
      if (!text.includes('NOSCRIPT')) refused.push(right);
    });
  }
  if (!(await server.place.listens())) {
    refused.push({
      name: '+subscribe and the channels',
      without: 'waiters are not woken, and poll',
      isMinor: true,
      call: '',
    });
  }
  const unknown = passing.slice(0, 1).map((text) => skipped(`The permissions to write could not be checked: ${text}.`));
  if (refused.length + unknown.length === 0)
    return [ok(`The user may do all that locks need${readOnly ? ', as far as reading goes' : ''}.`)];
  const lacking = refused.map(({ name, without, isMinor }) => {
    const text = `The user lacks a permission, or the server refused a command: ${name}. Without it, ${without}.`;
    return isMinor ? warn(text, GIVE_RIGHTS) : problem(text, GIVE_RIGHTS);
  });
  return [...lacking, ...unknown];
}

/** The hash of no script. */
const NO_SHA = 'f'.repeat(40);
