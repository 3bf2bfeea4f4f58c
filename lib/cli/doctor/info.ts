import { readServerFacts, spreadsKeys } from '../../redis/connection/server-facts.js';
import {
  type Finding,
  SPREAD_KEYS,
  type ServerUse,
  unsafetyOf,
  warningsOf,
} from '../../redis/connection/server-findings.js';
import { inWordsOfTool } from '../error-text.js';
import { counted, durationText, timeText } from '../output/text.js';
import { type Server } from './servers.js';
import { type CheckName, type Result, ok, problem, skipped, warn } from './finding.js';

/** The fields of INFO, as far as they are asked for. */
type Field = (name: string) => string | undefined;

export const fieldsOf =
  (info: string): Field =>
  (name) =>
    new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];

/** Whether the address is a proxy in front of several servers; without a result, it is not, or its servers do not say. */
export async function checkSpreadKeys({ ask }: Server, keyPrefix: string): Promise<Result[]> {
  const evaluate = (text: string, keys: readonly string[]): Promise<unknown> =>
    ask((client) => client.evaluate(text, [keys.length, ...keys]));
  const isSpread = await spreadsKeys(evaluate, keyPrefix);
  if (isSpread === null) return [skipped('Whether this address is a proxy in front of several servers is not known.')];
  if (!isSpread) return [];
  return [problem(SPREAD_KEYS.text, inWordsOfTool(SPREAD_KEYS.advice))];
}

/** What INFO says, as far as locks are concerned. `appendfsync`: the option of the server, as far as it is known. */
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
    const advice = 'Check the rights of the user (+info), and what answers there.';
    return skipped('This server does not say what it is.', advice);
  }
  const valkey = field('valkey_version');
  const name = valkey === undefined ? `Redis ${version}` : `Valkey ${valkey}`;
  const up = Number(field('uptime_in_seconds') ?? Number.NaN);
  const since = Number.isNaN(up) ? '' : `, up for ${durationText(up * 1_000)}`;
  return ok(`${name}, ${field('redis_mode') ?? 'standalone'}${since}: locks work with it.`);
}

const FULL = 0.9;

function memoryResult(field: Field): Result {
  const [limit, used] = [Number(field('maxmemory') ?? Number.NaN), Number(field('used_memory') ?? 0)];
  if (Number.isNaN(limit)) return skipped('This server does not say whether it has a limit of memory (`maxmemory`).');
  if (limit === 0) return ok('There is no limit of memory (`maxmemory 0`), so no lock is evicted.');
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
  if (aof === undefined) return skipped('This server does not say how it keeps its data.');
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
  const last = saved > 0 ? ` (the last one: ${timeText(new Date(saved * 1_000))})` : '';
  const text = `The append-only file is off: a restart goes back to the last snapshot${last}, if there is one. ${FORGETS}`;
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
  if (field('role') === undefined) return [skipped('This server does not say whether it has replicas.')];
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
