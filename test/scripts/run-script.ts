import { type Redis } from 'ioredis';
import { ttlMs } from '../../lib/redis/codec/operation-terms.js';
import { batchOperands } from '../../lib/redis/scripts/batch.js';
import { type LuaScript, arg, lua } from '../../lib/redis/scripts/lua.js';
import { type LockScripts, createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { type OperationKind } from '../../lib/redis/scripts/operation.js';
import { OPERATIONS, type Values } from '../support/redis/wire-values.js';

export type Operands = Values;
export type AnyScript = LuaScript<any, any, any>;
export type AnyScripts = Readonly<Record<keyof LockScripts, AnyScript>>;

/** The `seenToken` of a revocation by somebody who has just looked. */
export const EVERY_TOKEN = `${Number.MAX_SAFE_INTEGER}`;

/** The operands of an acquire that writes, and does not wait, without its lease. */
export const PLAIN_WRITER = {
  owner: '-',
  mode: 'write',
  waiterLeaseMs: 0,
  fair: 1,
  permits: 0,
  take: 1,
  maxWaiters: 0,
};

/** The operands of an acquire that is for no fire of a job. */
export const NO_CLAIM = { job: '-', fireKind: '-', fireMs: 0, fireAgeMs: 0, rememberMs: 0, rerun: 0 };

/** A clock that the test owns: every command carries its time, so that no run sleeps and each can be repeated. */
const OPERAND_CLOCK = lua`
local time = ${arg('nowMicros')}
`;

/** Added to times of expiry on the operand clock: Redis, which has a clock of its own, must not reach them. */
export const FAR_MS = 4_398_046_511_104;

/** By this clock, keys expire, too: when, is to be compared to the millisecond. */
const VIRTUAL_CLOCK = lua`${OPERAND_CLOCK}
local server = redis
local redis = { pcall = server.pcall }
function redis.call(command, ...)
  if command ~= 'PEXPIRE' then return server.call(command, ...) end
  local key, ms = ...
  return server.call('PEXPIREAT', key, string.format('%.0f', 4398046511104 + tonumber(string.sub(time, 1, -4)) + ms))
end
`;

/** The same scripts on servers whose keys expire by that clock, `FAR_MS` later. The server must be told when one is over. */
export const virtualScripts = (): AnyScripts => createLockScripts(VIRTUAL_CLOCK as never);

/** The lock's scripts with one operand more: `nowMicros`. */
export const timedScripts = (): AnyScripts => createLockScripts(OPERAND_CLOCK as never);

/** Runs a script by its hash, by its text when the server does not know it. Unless told otherwise, no command is late. */
export async function runScript(redis: Redis, script: AnyScript, values: Operands): Promise<string[]> {
  const operands = script.operands(wireValues(values) as never) as [number, ...(string | number)[]];
  return partsOf(await runText(redis, script, operands), values);
}

async function runText(redis: Redis, { sha1, text }: AnyScript, operands: [number, ...(string | number)[]]) {
  try {
    return await redis.evalsha(sha1, ...operands);
  } catch (error) {
    if (!String(error).includes('NOSCRIPT')) throw error;
    return redis.eval(text, ...operands);
  }
}

export const isOperation = (name: string): name is OperationKind => name in OPERATIONS;

/** Another lock, and a key under which something else than a lock is, for the operations beside one in a batch. */
export interface Neighbours {
  readonly lock: string;
  readonly stranger: string;
}

/** Runs an operation in a batch: behind one that fails, and before an acquire and a release of another lock. */
export async function runInBatch(
  redis: Redis,
  { batch }: AnyScripts,
  operation: { readonly name: OperationKind; readonly values: Operands },
  { lock, stranger }: Neighbours,
): Promise<string[]> {
  const { nowMicros = 0, keepMs, channelPrefix, countReceivers } = operation.values;
  const shared = { nowMicros, keepMs, channelPrefix, countReceivers } as Operands;
  const terms = { ...PLAIN_WRITER, leaseMs: 10, holder: 'host:1' };
  const attempt = `beside.${String((neighbours += 1)).padStart(8, '0')}`;
  const acquire = { ...shared, ...terms, ...NO_CLAIM, attempt };
  const release = { ...shared, attempt, holdAtLeastMs: 0, job: '-', runOutcome: '-' };
  const all = [
    { name: 'acquire', values: { ...acquire, lock: stranger } } as const,
    operation,
    { name: 'acquire', values: { ...acquire, lock } } as const,
    { name: 'release', values: { ...release, lock } } as const,
  ].map(({ name, values }) => ({ name, values: wireValues(values) }));
  const operations = all.map(({ name, values }) => ({
    lock: String(values['lock']),
    attempt: String(values['attempt']),
    token: String(values['token'] ?? ''),
    terms: OPERATIONS[name].termsOf(values as never),
  }));
  // All acquires of a batch have the times of one.
  const { sentMicros, untilMicros } = all[1]!.values as { sentMicros: string; untilMicros: string };
  const operands = batchOperands(operations, { sentMicros, untilMicros }) as [number, ...(string | number)[]];
  operands.splice(1 + operations.length, 0, String(nowMicros));
  const reply = (await runText(redis, batch, operands)) as string | (string | string[])[];
  const replies = typeof reply === 'string' ? reply.split('\n') : reply;
  const outcomes = replies.map((one) => (typeof one === 'string' ? one.split(' ') : one)[0]);
  const isInTime = Number(sentMicros) <= Number(nowMicros) && Number(nowMicros) <= Number(untilMicros);
  const expected = isInTime ? 'failed granted released' : 'failed refused unknown';
  const beside = outcomes.filter((_, i) => i !== 1).join(' ');
  if (beside !== expected) throw new Error(`Beside it: got [${beside}], expected [${expected}]`);
  return partsOf(replies[1], operation.values);
}

let neighbours = 0;

/** The operands as the library sends them. */
export function wireValues(values: Operands): Operands {
  const { nowMicros = 0, keepMs, leaseMs, mode, owner, fireKind, holdAtLeastMs, runOutcome, unanswered = 0 } = values;
  const isPlain =
    leaseMs === undefined ? !holdAtLeastMs && runOutcome === '-' && !Number(unanswered) : mode === 'write';
  const plain = isPlain && (owner ?? '-') === '-' && (fireKind ?? '-') === '-' ? 1 : 0;
  const inTime = { sentMicros: nowMicros, untilMicros: nowMicros, unanswered };
  const lease = leaseMs === undefined ? {} : leaseOperands(Number(keepMs), Number(leaseMs));
  return { ...inTime, plain, ...values, ...lease, keepMs: String(keepMs).padStart(10, '0') };
}

const leaseOperands = (keepMs: number, leaseMs: number) => ({
  leaseMs: String(leaseMs).padStart(10, '0'),
  ttlMs: ttlMs(keepMs, leaseMs),
});

/** The reply as a list, as that of the full path: the plain one leaves out what its caller knows. */
export function partsOf(reply: unknown, values: Operands): string[] {
  if (typeof reply !== 'string') return reply as string[];
  const [outcome, attempt, token] = reply.split(' ') as [string, string, string];
  const now = String(values['nowMicros']).slice(0, -3);
  if (outcome === 'granted') return [outcome, attempt, now, token, `${Number(values['leaseMs'])}`, '1', ''];
  return outcome === 'released'
    ? [outcome, attempt, now, '0', token, '']
    : [outcome, attempt, now, `${Number(values['leaseMs'])}`];
}
