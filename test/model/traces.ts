// Compares lock.qnt with the code, both ways: records what simulated servers did, as steps of the model, and runs commands of the
// model by the scripts (scripts/model.mjs --traces).
import { ScriptCalls } from '../../lib/redis/codec/script-calls.js';
import { RedisKeys } from '../../lib/redis/codec/redis-keys.js';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import * as mutants from '../scripts/mutants.js';
import { mutate } from '../scripts/mutate.js';
import { type Change, type Rule } from '../simulation/checker/rule.js';
import { loadLibrary } from '../simulation/library/library.js';
import { runPlan } from '../simulation/run-plan.js';
import { type SimServer } from '../simulation/server/sim-server.js';
import { planOf } from '../simulation/workload/draw-plan.js';
import { type Plan, type PlannedCall } from '../simulation/workload/plan.js';
import { type LockView, lockOn } from '../support/lua/lock-view.js';
import { type Hash, Lua, sha1Of } from '../support/lua/lua.js';

/** Profiles of one server whose clock does not step. */
export const PROFILES = [
  'turns',
  'network',
  'processes',
  'operator',
  'semaphores',
  'turnsNetwork',
  'semaphoresNetwork',
];

/** A command of lock.qnt. */
interface Command {
  readonly kind: string;
  readonly micros: number;
  readonly attempt: number;
  readonly mode: string;
  readonly permits: number;
  readonly take: number;
  readonly lease: number;
  readonly span: number;
  readonly most: number;
  readonly token: number;
  readonly isLate: boolean;
  readonly deaf: ReadonlySet<number>;
}

interface Outcome {
  readonly reply: string;
  readonly holds: ReadonlySet<object>;
  readonly queue: readonly number[];
}

interface Step extends Outcome {
  readonly command: Command;
}

/** What one server did to one lock, since it had nothing of it. */
export interface Trace {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** What the model has of a lock: what is not over. */
function outcomeOf(lock: LockView, now: number, reply: string, idOf: (attempt: string) => number): Outcome {
  const holds = [...lock.holds]
    .filter(([, { deadline }]) => deadline > now)
    .map(([attempt, { mode, take, token, deadline }]) => {
      return { attempt: idOf(attempt), mode: mode[0], take, token, until: deadline };
    });
  const queue = [...lock.queue.values()].filter(({ deadline }) => deadline > now);
  return { reply, holds: new Set(holds), queue: queue.map(({ attempt }) => idOf(attempt)) };
}

/** Why a release found nothing is not compared: the server remembers some attempts only. */
const replyOf = (kind: string, reply: unknown): string =>
  kind === 'release' && !['released', 'cancelled'].includes(String(reply)) ? 'nothing' : String(reply);

/** Records what servers do, lock by lock, up to the first command that the model does not have. */
class Recorder implements Rule {
  readonly traces: { name: string; steps: Step[]; isCut: boolean; token: number; ids: Map<string, number> }[] = [];
  readonly #present = new Map<string, (typeof this.traces)[number]>();

  constructor(private readonly run: string) {}

  onChange(change: Change): void {
    const { server, script, key, before, lock, now, reply } = change;
    if (script.name === 'inspect') return;
    const name = `${this.run}, ${server.name} ${key}`;
    let trace = this.#present.get(name);
    if (!trace || (before.token === 0 && trace.token > 0)) {
      trace = { name, steps: [], isCut: false, token: 0, ids: new Map() };
      this.traces.push(trace);
      this.#present.set(name, trace);
    }
    trace.token = lock.token;
    trace.isCut ||= !isInModel(change);
    if (trace.isCut) return;
    const { ids } = trace;
    const idOf = (attempt: string): number => {
      if (!ids.has(attempt)) ids.set(attempt, ids.size + 1);
      return ids.get(attempt)!;
    };
    const command = commandOf(change, idOf);
    trace.steps.push({ command, ...outcomeOf(lock, now, replyOf(command.kind, reply[0]), idOf) });
  }
}

function isInModel({ script, reply, lock }: Change): boolean {
  if (reply[0] === 'failed' || [...lock.holds.values()].some(({ token }) => token === 0)) return false;
  if (script.name === 'acquire')
    return script.text('owner') === '-' && script.text('fair') === '1' && script.text('fire') === '';
  return ['renew', 'downgrade', 'release', 'forceRelease'].includes(script.name);
}

const KINDS: Readonly<Record<string, string>> = { downgrade: 'renew', forceRelease: 'revoke' };

function commandOf({ server, script, before, reply }: Change, idOf: (attempt: string) => number): Command {
  const { name } = script;
  const number = (arg: string): number => script.number(arg);
  return {
    kind: KINDS[name] ?? name,
    micros: server.micros,
    attempt: idOf(script.text('attempt')),
    mode: script.text('mode')[0] ?? 'w',
    permits: number('permits'),
    take: name === 'acquire' ? number('take') : 1,
    lease: number('lease'),
    span: number('span'),
    most: number('most'),
    token: number(name === 'forceRelease' ? 'seenToken' : 'token'),
    isLate: reply[0] === 'refused' && reply[3] === 'late',
    deaf: new Set([...before.queue.keys()].filter((attempt) => !hears(server, attempt)).map(idOf)),
  };
}

const hears = ({ subscriptions }: SimServer, attempt: string): boolean =>
  subscriptions.counts.split('\n').some((channel) => channel.endsWith(attempt.split('.')[0]!));

/** Without what the model leaves out. */
const plainCall = (call: PlannedCall): PlannedCall => ({
  ...call,
  nested: undefined,
  claim: undefined,
  handsOn: undefined,
  keys: call.keys.slice(0, 1),
  options: { ...call.options, owner: undefined, holdAtLeastMs: undefined, fair: undefined },
});

const plainPlan = (plan: Plan): Plan => ({
  ...plan,
  calls: plan.calls.filter(({ entry }) => entry !== 'adopt').map(plainCall),
  leads: [],
});

/** What the servers of a simulated run did. */
export async function tracesOf(seed: number, profile: string): Promise<readonly Trace[]> {
  const recorder = new Recorder(`seed ${seed} (${profile})`);
  await runPlan(loadLibrary(), plainPlan(planOf(seed, profile)), { watch: recorder });
  return recorder.traces.filter(({ steps }) => steps.length > 1);
}

/** A value as an expression of Quint: its parser and its types take minutes for a trace. */
export function expressionOf(value: unknown, nextId: () => bigint): object {
  const app = (opcode: string, args: readonly unknown[]): object => {
    return { id: nextId(), kind: 'app', opcode, args: args.map((arg) => expressionOf(arg, nextId)) };
  };
  if (value instanceof Set) return app('Set', [...value]);
  if (Array.isArray(value)) return app('List', value);
  if (typeof value === 'object') return app('Rec', Object.entries(value!).flat());
  if (typeof value === 'number') return { id: nextId(), kind: 'int', value: BigInt(value) };
  return { id: nextId(), kind: typeof value === 'string' ? 'str' : 'bool', value };
}

/** A value as ITF has it. */
export function valueOf(itf: any): any {
  if (Array.isArray(itf)) return itf.map(valueOf);
  if (typeof itf !== 'object' || itf === null) return itf;
  if ('#bigint' in itf) return Number(itf['#bigint']);
  if ('#set' in itf) return new Set(itf['#set'].map(valueOf));
  return Object.fromEntries(Object.entries(itf).map(([name, part]) => [name, valueOf(part)]));
}

const KEY = 'k';
const PREFIX = 'lock:';
const attemptOf = (id: number): string => `p${id}.${String(id).padStart(8, '0')}`;
const idOf = (attempt: string): number => Number(attempt.split('.')[1]);

/** Mutants of the scripts that the traces of the model find. */
export const SCRIPT_MUTANTS = [
  'a writer ignores readers',
  'a reader ignores writers',
  'one reader too many',
  'the fair queue is overtaken',
  'a renewal shortens',
  'a renewal ignores the token',
  'the fast lane renews with any token',
  'a revocation hands nothing over',
  'a revocation that is late ends all',
  'a release hands nothing over',
  'a foreign release frees the lock',
];

/** The scripts, or those with a mutant of this name. */
export function scriptsWith(mutant?: string) {
  if (mutant === undefined) return createLockScripts();
  return mutate(
    createLockScripts(),
    Object.values(mutants)
      .flat()
      .find(([name]) => name === mutant)!,
  );
}

/** Runs the commands of the model by the scripts; returns the first step that differs, or null. */
export async function firstDifference(
  steps: readonly Step[],
  texts: ReturnType<typeof scriptsWith>,
): Promise<{ step: Step; scripts: Outcome } | null> {
  const lua = await Lua.open();
  lua.forgetHashes();
  const keys = new RedisKeys(PREFIX);
  const { channelPrefix } = keys;
  const calls = new ScriptCalls(texts, keys, { keepMs: 3_600_000, channelPrefix, countReceivers: true });
  let hash: Hash | undefined;
  for (const step of steps) {
    const { command } = step;
    const { micros, deaf, kind } = command;
    const { script, operands } = scriptOf(calls, command);
    const [sha1, [count, ...words]] = [sha1Of(script.text), operands.map(String)];
    lua.load(sha1, script.text);
    const channels = [...new Set(steps.map((one) => one.command.attempt))].filter((id) => !deaf.has(id));
    const run = lua.run(sha1, words.splice(0, Number(count)), words, {
      micros,
      refusal: '',
      listening: channels.map((id) => `${channelPrefix}p${id}\n1\n`).join(''),
      valueOf: () => hash,
    });
    for (const { value } of run.steps.flat()) hash = value;
    const lock = lockOn({ hash: () => hash }, keys.storageKey(KEY));
    const [word] = typeof run.reply === 'string' ? run.reply.split(' ') : (run.reply as unknown[]);
    const reply = run.reply instanceof Error ? run.reply.message : replyOf(kind, word);
    const scripts = outcomeOf(lock, Math.floor(micros / 1_000), reply, idOf);
    const { command: _, ...model } = step;
    if (plain(scripts) !== plain(model)) return { step, scripts };
  }
  return null;
}

/** As a text that is the same for the same value. */
const plain = (value: unknown): string =>
  value instanceof Set
    ? `Set(${[...value].map(plain).sort().join()})`
    : typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.entries(value)
          .map(([name, part]) => `${name}: ${plain(part)}`)
          .sort()
          .join()
      : JSON.stringify(value);

function scriptOf(calls: ScriptCalls, command: Command) {
  const { kind, micros, attempt: id, token, lease: leaseMs, span, most, permits, take, isLate } = command;
  const mode = command.mode === 'w' ? 'write' : 'read';
  const [one, timeoutMs] = [{ key: KEY, attempt: attemptOf(id) }, 1_000];
  if (kind === 'revoke') return calls.forceRelease(KEY, one.attempt, token);
  if (kind === 'renew') {
    const hold = { ...one, fencingToken: token, leaseMs, mode, timeoutMs } as const;
    return calls.alone(calls.renew({ ...hold, owner: undefined, holder: '', hasNewHolder: false, fire: undefined }));
  }
  if (kind === 'release')
    return calls.alone(calls.release({ ...one, holdAtLeastMs: 0, leaseMs, unanswered: true }, timeoutMs));
  const request = {
    ...one,
    keys: [KEY],
    mode,
    leaseMs,
    waiterLeaseMs: span,
    maxWaiters: most,
    permits,
    take,
    fair: true,
    holder: 'h',
  };
  return calls.alone(calls.acquire(request as never, timeoutMs, 0), {
    sentMicros: micros,
    untilMicros: isLate ? micros - 1 : micros + 1e6,
  });
}
