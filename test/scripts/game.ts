import { type Redis } from 'ioredis';
import { isDeepStrictEqual } from 'node:util';
import {
  checkSetPermitsReply,
  isTooLate,
  readAcquireReply,
  readAdoptReply,
  readForceReleaseReply,
  readLockState,
  readReleaseReply,
  readRenewReply,
  readRuns,
  readWriteBackReply,
  serverMicrosIn,
} from '../../lib/redis/codec/replies.js';
import { type Operation, type ScriptCalls } from '../../lib/redis/codec/script-calls.js';
import { type Script } from '../../lib/redis/connection/command.js';
import { type LockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { type Lua } from '../support/lua/lua.js';
import { type Command, type Request, keysOf } from './commands.js';
import { Conditions } from './conditions.js';
import { NextCommand, START_MS } from './next-command.js';
import { type Action, CLIENTS, DEAD_CLIENT, DEAF_CLIENT, type Game } from './random-steps.js';
import { LuaServer, plainReply, recordOf } from './lua-server.js';
import { type Expected, type Lock, ReferenceModel } from './reference-model.js';
import { FAR_MS, callsOf, runScript, textsOf } from './run-script.js';

/** A server connection, another that listens to the channels of the live clients, and the scripts to test. */
export interface Arena {
  readonly redis: Redis;
  readonly scripts: LockScripts;
  /** Of the keys and the channels. */
  readonly prefix: string;
  /** For a server of the simulation, which is compared with the real one. */
  readonly lua?: Lua | undefined;
  /** Returns the messages published so far, one `client message` each, and forgets them. */
  published(): Promise<string[]>;
  /** Makes a client listen, or stops it. */
  listen(client: string, on: boolean): Promise<void>;
}

type Reply = Readonly<Record<string, unknown>>;

/** As with the defaults, it outlasts every place in a queue, and every command. */
const KEEP_MS = 31_000;
/** Longer than the time to live of a lock that is free. */
const REMEMBER_MS = 48_000;
/** The errors of a simulated server. */
const REFUSALS: Readonly<Record<string, string>> = {
  full: "OOM command not allowed when used memory > 'maxmemory'.",
  replica: "READONLY You can't write against a read only replica.",
};
let games = 0;

/** Plays one random game on its own locks, against the reference model. */
export class LockGame {
  operations = 0;
  readonly #name = `${process.pid}.${(games += 1)}`;
  readonly #keys: readonly string[];
  readonly #calls: ScriptCalls;
  readonly #model: ReferenceModel;
  readonly #twin: LuaServer | undefined;
  readonly #conditions: Conditions;
  readonly #next: NextCommand;
  readonly #trace: string[] = [];
  readonly #tokens = new Map<string, number>();
  /** The greatest token of each key that was granted since its record was lost. */
  readonly #greatest = new Map<string, number>();
  readonly #expiresAt = new Map<string, number>();
  #micros = START_MS * 1_000;
  /** Whether the deaf client has a subscriber now. */
  #listens = true;

  constructor(
    readonly arena: Arena,
    readonly game: Game,
  ) {
    this.#keys = Array.from({ length: game.profile.locks }, (_, i) => `${this.#name}.${i}`);
    const { counts } = game.profile;
    this.#calls = callsOf({ keyPrefix: arena.prefix, keepMs: KEEP_MS, scripts: arena.scripts, countReceivers: counts });
    const hears = (client: string): boolean => client !== DEAD_CLIENT && (client !== DEAF_CLIENT || this.#listens);
    this.#model = new ReferenceModel({ keepMs: KEEP_MS, rememberMs: REMEMBER_MS, counts, hears });
    this.#conditions = new Conditions(arena.redis, this.#keys.map(this.#stored));
    const surroundings = {
      micros: () => this.#micros,
      refusal: () => REFUSALS[this.#conditions.current] ?? '',
      hides: (key: string) => key.endsWith('.stranger') || this.#conditions.hides(key),
      channels: () => CLIENTS.filter(hears).map((client) => `${arena.prefix}wake:${client}`),
    };
    this.#twin = arena.lua && new LuaServer(arena.lua, arena.scripts, surroundings);
    this.#next = new NextCommand({
      keys: this.#keys,
      profile: game.profile,
      look: (key) => this.#model.lock(key),
      tokenOf: (key, attempt) => this.#tokens.get(`${key} ${attempt}`),
      micros: () => this.#micros,
    });
  }

  readonly #stored = (key: string): string => this.arena.prefix + key;

  async play(): Promise<void> {
    await this.arena.redis.set(this.#stored(`${this.#name}.stranger`), 'mine');
    try {
      for (const { advanceMicros, action } of this.game.steps) await this.#step(advanceMicros, action);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#trace.slice(-30).join('\n')}`, { cause: error });
    } finally {
      await this.#conditions.change('none');
      await this.#listen(true);
      const beside = [`${this.#name}.stranger`, `${this.#name}.beside`];
      await this.arena.redis.unlink(...[...this.#keys, ...beside].map(this.#stored));
    }
  }

  async #step(advanceMicros: number, action: Action): Promise<void> {
    this.#micros += advanceMicros;
    const over = this.#keys.filter((key) => (this.#expiresAt.get(key) ?? Infinity) <= this.#now);
    if (over.length > 0) await this.#expire(over);
    if (action.kind === 'listen') await this.#listen(action.on);
    else if (action.kind === 'condition') await this.#change(action.condition);
    else await this.#run(this.#next.of(action));
  }

  /** The time to live of these keys is over: by the clock of the game, not by that of Redis. */
  async #expire(keys: readonly string[]): Promise<void> {
    await this.#conditions.change('none');
    this.#trace.push(`${this.#now} expired: ${keys.join(', ')}`);
    for (const key of keys) {
      for (const known of [this.#model.locks, this.#expiresAt, this.#greatest]) known.delete(key);
    }
    this.#twin?.delete(keys.map(this.#stored));
    await this.arena.redis.unlink(...keys.map(this.#stored));
  }

  async #change(condition: Extract<Action, { kind: 'condition' }>['condition']): Promise<void> {
    this.#trace.push(`${this.#now} condition: ${condition}`);
    await this.#conditions.change(condition);
  }

  async #listen(on: boolean): Promise<void> {
    if (on === this.#listens) return;
    this.#listens = on;
    await this.arena.listen(DEAF_CLIENT, on);
  }

  get #now(): number {
    return Math.floor(this.#micros / 1000);
  }

  /** Whether the attempt holds a lock of this command, or waits for it. */
  #isKnown(command: Command): boolean {
    if (command.name !== 'acquire') return true;
    const { keys, attempt } = command.request;
    return keys.some((key) => {
      const { holds, queue } = this.#model.lock(key);
      const one = holds.get(attempt) ?? queue.find((waiter) => waiter.attempt === attempt);
      return one !== undefined && one.deadline > this.#now;
    });
  }

  async #run(command: Command): Promise<void> {
    this.operations += 1;
    const { current } = this.#conditions;
    const [isKnown, restore] = [this.#isKnown(command), this.#model.keep()];
    const expected = this.#model.run(command, this.#micros);
    this.#trace.push(`${this.#now} ${JSON.stringify(command)} expects ${JSON.stringify(expected)}`);
    const reply = await this.#send(command).catch(errorCode);
    const messages = await this.arena.published();
    this.#trace.push(`  got ${JSON.stringify(reply)}; ${messages.join(', ')}`);
    if (this.#twin) {
      equal('messages of the simulated server', this.#twin.published(), messages);
      await Promise.all([...this.#keys, `${this.#name}.beside`].map((key) => this.#compareRecords(this.#stored(key))));
    }
    if (typeof reply === 'string' || current === 'replica') restore();
    if (typeof reply === 'string') {
      const hides = keysOf(command).some((key) => this.#conditions.hides(this.#stored(key)));
      const isAllowed = { OOM: current === 'full' && !isKnown, READONLY: current === 'replica', WRONGTYPE: hides }[
        reply
      ];
      if (!isAllowed) throw new Error(`It failed: ${reply}`);
      const [wrong] = messages.filter((message) => !message.includes(' wake '));
      if (wrong) throw new Error(`It failed, and published: ${wrong}`);
    } else {
      const wasGranted = expected.reply['outcome'] === 'granted' && !isKnown && !this.#model.hasWritten;
      if (current === 'full' && wasGranted) throw new Error('A server without memory has granted a new hold');
      compare(reply, expected);
      equal('messages', messages, this.#model.messages);
    }
    await Promise.all(this.#keys.map((key) => this.#check(key)));
    if (typeof reply !== 'string' && current !== 'replica') await this.#checkKept(command, reply);
  }

  /** The holders and the waiters, as an operator sees them. */
  async #check(key: string): Promise<void> {
    if (this.#conditions.hides(this.#stored(key))) return;
    const reply = textsOf(await runScript(this.arena.redis, this.#calls.inspect(key), this.#micros));
    const state = readLockState(key, reply);
    const lock = this.#model.lock(key);
    const isLive = ({ deadline, span }: { deadline: number; span: number }) => Math.min(deadline - this.#now, span) > 0;
    const holds = [...lock.holds.values()].filter(isLive);
    const waiting = lock.queue.filter(({ deadline }) => deadline > this.#now).sort((a, b) => a.place - b.place);
    const holders = holds.map((hold) => ({
      attempt: hold.attempt,
      owner: hold.owner === '-' ? hold.attempt : hold.owner,
      mode: hold.mode === 'w' ? 'write' : 'read',
      take: hold.take,
      remainingMs: Math.min(hold.deadline - this.#now, hold.span),
      fencingToken: hold.token,
      since: hold.since,
      text: hold.text.split(' ')[0],
    }));
    const seen = state.holders.map(({ attempt, owner, mode, take, remainingMs, fencingToken, since, ...rest }) => {
      const text = rest.host ? `${rest.host}:${rest.pid}` : '';
      return { attempt, owner, mode, take, remainingMs, fencingToken, since: since.getTime(), text };
    });
    equal('holders', sorted(seen), sorted(holders));
    const line = state.queue.map(({ attempt, mode, take, since }) => `${attempt} ${mode} ${take} ${since.getTime()}`);
    equal(
      'queue',
      line,
      waiting.map(({ attempt, mode, take, since }) => `${attempt} ${mode} ${take} ${since}`),
    );
    equal('last token', state.fencingToken, lock.token);
    equal('permits set', reply[2], `${lock.permits ?? ''}`);
    const runs = [...lock.jobs].flatMap(([job, { run }]) => (run ? [{ ...run, job }] : []));
    const known = readRuns(key, reply).map(({ attempt, job, fire, started, ended, outcome, instance }) => {
      const told = outcome === 'done' || outcome === 'failed' ? outcome : '-';
      const times = { fire: fire.getTime(), started: started.getTime(), ended: ended?.getTime() ?? 0 };
      return { attempt, job, ...times, outcome: told, instance };
    });
    equal('runs', sorted(known), sorted(runs));
    this.#checkExclusion(holds);
    for (const { attempt, token } of holds) if (token > 0) this.#tokens.set(`${key} ${attempt}`, token);
  }

  /** Also that of the model. */
  #checkExclusion(holds: readonly { readonly mode: string; readonly owner: string; readonly attempt: string }[]): void {
    const nameOf = ({ owner, attempt }: (typeof holds)[number]): string => (owner === '-' ? attempt : owner);
    const writers = holds.filter(({ mode }) => mode === 'w');
    const foreign = writers.find((writer) => holds.some((other) => nameOf(other) !== nameOf(writer)));
    if (foreign) throw new Error(`${foreign.attempt} writes together with another holder`);
  }

  /** The record lives long enough, and not much longer. Tokens rise while it does. */
  async #checkKept(command: Command, reply: Reply): Promise<void> {
    const keys = keysOf(command);
    const granted = reply['outcome'] === 'granted' ? (reply['fencingTokens'] as number[]) : [];
    for (const [i, key] of keys.entries()) {
      const at = await this.arena.redis.pexpiretime(this.#stored(key));
      const lock = this.#model.lock(key);
      const before = this.#greatest.get(key) ?? 0;
      const token = granted[i] ?? 0;
      const isShared =
        lock.holds.size > 1 || [...lock.holds.values()].some((hold) => hold.token === token && token <= before);
      if (token > 0 && token <= before && !isShared) throw new Error(`token ${token} is not above ${before}`);
      this.#greatest.set(key, Math.max(before, token));
      if (at === -2) {
        this.#expiresAt.delete(key);
        continue;
      }
      // An unused lock leaves its token, those that ended, and a text.
      const [fields, length] = await Promise.all([
        this.arena.redis.hlen(this.#stored(key)),
        this.arena.redis.hstrlen(this.#stored(key), 's'),
      ]);
      if (isUnused(lock) && (fields > 3 || length > 14)) throw new Error(`${key} is unused and has ${fields} fields`);
      const needed = neededUntil(lock, this.#now);
      this.#expiresAt.set(key, at - FAR_MS);
      // Not each command sets it.
      const most = needed + 3 * KEEP_MS;
      if (at - FAR_MS < needed || at - FAR_MS > most) {
        throw new Error(`${key} is kept until ${at - FAR_MS}, expected ${needed} to ${most}`);
      }
    }
  }

  async #compareRecords(key: string): Promise<void> {
    if (this.#conditions.hides(key)) return;
    const { redis } = this.arena;
    const [fields, at] = await Promise.all([redis.callBuffer('HGETALL', key), redis.pexpiretime(key)]);
    equal(`${key} of the simulated server`, this.#twin!.record(key), recordOf(fields as Buffer[], at));
  }

  async #runScript(script: Script): Promise<unknown> {
    const reply = runScript(this.arena.redis, script, this.#micros);
    if (this.#twin) {
      const got = await reply.catch((error: unknown) => error);
      equal('reply of the simulated server', plainReply(this.#twin.run(script)), plainReply(got));
    }
    return reply;
  }

  /** Every second one that can travel with others does so; in a special condition, the others would not do what they do. */
  async #send(command: Command): Promise<Reply> {
    const operation = this.#operation(command);
    const times = timesOf(command);
    const mayTravel = operation?.others.length === 0 && this.#conditions.current === 'none';
    if (mayTravel && this.operations % 2 === 0) {
      return readReply(command, await this.#sendTogether(operation, times));
    }
    const script = operation ? this.#calls.alone(operation, times) : this.#scriptOf(command);
    return readReply(command, textsOf(await this.#runScript(script)));
  }

  /** Behind one that fails, and before an acquire and a release of another lock. */
  async #sendTogether(operation: Operation, times: ReturnType<typeof timesOf>): Promise<string[]> {
    const attempt = `beside.${String(this.operations).padStart(8, '0')}`;
    const keys = [`${this.#name}.stranger`];
    const other = { keys, attempt, owner: undefined, mode: 'write', leaseMs: 10, holder: 'host:1' } as const;
    const asked = { ...other, waiterLeaseMs: 0, fair: true, permits: 0 };
    const key = `${this.#name}.beside`;
    const operations = [
      this.#calls.acquire(asked, 1_000, 0),
      operation,
      this.#calls.acquire({ ...asked, keys: [key] }, 1_000, 0),
      this.#calls.release({ key, attempt, holdAtLeastMs: 0, leaseMs: 10 }, 1_000),
    ];
    const script = this.#calls.together(operations, times);
    const replies = ((await this.#runScript(script)) as unknown[]).map(textsOf);
    const isInTime = times.sentMicros <= this.#micros && this.#micros <= times.untilMicros;
    const beside = replies.flatMap(([outcome], i) => (i === 1 ? [] : [outcome]));
    equal('next to it', beside, isInTime ? ['failed', 'granted', 'released'] : ['failed', 'refused', 'unknown']);
    return replies[1]!;
  }

  #operation(command: Command): Operation | undefined {
    switch (command.name) {
      case 'acquire':
        return this.#calls.acquire(requestOf(command.request), 1_000, command.request.fireAgeMs);
      case 'release': {
        const { key, attempt, holdAtLeastMs, job, runOutcome, unanswered, repeated } = command;
        const run = {
          job: job === '-' ? undefined : job,
          runOutcome: runOutcome === '-' ? undefined : (runOutcome as 'done'),
        };
        return this.#calls.release(
          { key, attempt, holdAtLeastMs, leaseMs: 0, ...run, unanswered: unanswered === 1, isRepeated: repeated },
          1_000,
        );
      }
      case 'renew': {
        const { key, attempt, token, leaseMs, mode } = command;
        const asked = { key, attempt, fencingToken: token, leaseMs, mode: mode as 'write', timeoutMs: 1_000 };
        return this.#calls.renew({ ...asked, owner: undefined, holder: '' });
      }
      default:
        return undefined;
    }
  }

  #scriptOf(command: Command): Script {
    switch (command.name) {
      case 'downgrade': {
        const { key, attempt, token: fencingToken } = command;
        const kept = { leaseMs: 0, mode: 'read', owner: undefined, holder: '', timeoutMs: 1_000 } as const;
        return this.#calls.alone(this.#calls.renew({ key, attempt, fencingToken, ...kept }));
      }
      case 'adopt': {
        const asked = { ...command, fencingToken: command.token, unanswered: command.unanswered === 1 };
        return this.#calls.adopt(asked, 1_000);
      }
      case 'writeBack':
        return this.#calls.writeBack({ ...command, fencingToken: command.token }, command.newToken, 1_000);
      case 'forceRelease':
        return this.#calls.forceRelease(command.key, command.attempt, command.seenToken);
      case 'setPermits':
        return this.#calls.setPermits(command.key, command.attempt, command.permits === '-' ? null : command.permits);
      default:
        throw new Error(`${command.name} is an operation`);
    }
  }
}

/** Until when the record of a lock is kept at least. */
function neededUntil({ holds, permits, jobs }: Lock, now: number): number {
  const ends = [...holds.values()].map(({ deadline }) => deadline);
  const kept = [...jobs.values()].map(({ until }) => until);
  return Math.max(Math.max(now, ...ends) + KEEP_MS, ...kept, permits === undefined ? 0 : now + 2_592_000_000);
}

const isUnused = ({ holds, queue, late, revoked, permits, jobs }: Lock): boolean =>
  permits === undefined && holds.size + queue.length + late.length + revoked.length + jobs.size === 0;

const timesOf = (command: Command) => {
  if (command.name !== 'acquire') return { sentMicros: 0, untilMicros: 0 };
  return { sentMicros: command.sentMicros, untilMicros: command.untilMicros };
};

function requestOf(request: Request): Parameters<ScriptCalls['acquire']>[0] {
  const { owner, mode, fair, job, fireKind, fireMs, rerun, ...same } = request;
  const named = { ...same, owner: owner === '-' ? undefined : owner, mode: mode as 'write', fair: fair === 1 };
  if (job === '-') return named;
  const claim = {
    job,
    kind: fireKind as 'at',
    ms: fireMs,
    calledAt: 0,
    rememberMs: REMEMBER_MS,
    rerunOnLoss: rerun === 1,
  };
  return { ...named, claim };
}

/** As the store reads it. */
function readReply(command: Command, reply: string[]): Reply {
  const key = keysOf(command).join();
  switch (command.name) {
    case 'acquire':
      if (isTooLate(reply)) return { outcome: 'late', micros: serverMicrosIn(reply) };
      return readAcquireReply(command.request, reply);
    case 'release':
      return { ...readReleaseReply(key, reply, false) };
    case 'renew':
      return { ...readRenewReply(command, reply) };
    case 'downgrade': {
      const renewed = readRenewReply(command, reply);
      return renewed.outcome === 'lost' ? { ...renewed } : { outcome: 'downgraded' };
    }
    case 'adopt':
      return { ...readAdoptReply(key, reply) };
    case 'writeBack':
      return readWriteBackReply(key, reply) ? { outcome: 'written' } : lostOf(reply);
    case 'forceRelease':
      readForceReleaseReply(key, reply);
      return reply[0] === 'again' ? { outcome: 'again' } : { outcome: 'revoked', holds: Number(reply[3]) };
    default:
      checkSetPermitsReply(key, reply);
      return { outcome: 'set' };
  }
}

const lostOf = (reply: readonly string[]): Reply => ({
  outcome: 'lost',
  lastToken: Number(reply[3]),
  revoked: reply[4] === '1',
});

function compare(got: Reply, { reply, retryMs, holders }: Expected): void {
  const { retryMs: retry, holder, owner, ...rest } = got as Reply & { retryMs?: number };
  if (!retryMs || !holders) return equal('reply', got, reply);
  equal('reply', rest, reply);
  const isFirstEnd = retryMs.most === 0 ? retry === 0 : retry! > 0 && retry! <= retryMs.most;
  if (!isFirstEnd) throw new Error(`retryMs: got ${retry}, expected at most ${retryMs.most}`);
  const named = holders.map((hold) => ({ holder: hold.text, owner: hold.owner === '-' ? hold.attempt : hold.owner }));
  const isNamed = named.some((one) => one.holder === holder && one.owner === owner);
  if (!isNamed && (named.length > 0 || holder !== undefined || owner !== undefined)) {
    throw new Error(`holder: got ${String(holder)} of ${String(owner)}, expected one of ${JSON.stringify(named)}`);
  }
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;

function equal(what: string, got: unknown, expected: unknown): void {
  if (isDeepStrictEqual(plain(got), plain(expected))) return;
  throw new Error(`${what}: got ${JSON.stringify(got)}, expected ${JSON.stringify(expected)}`);
}

const sorted = <T extends { readonly attempt: string }>(list: readonly T[]): T[] =>
  [...list].sort((a, b) => (a.attempt < b.attempt ? -1 : 1));

/** The errors that a command may end with; what it ends with otherwise is a failure. */
const KNOWN_ERRORS = /\b(WRONGTYPE|OOM|READONLY) /;

function errorCode(error: unknown): 'WRONGTYPE' | 'OOM' | 'READONLY' {
  const [, code] = KNOWN_ERRORS.exec((error as Error).message) ?? [];
  if (code === undefined || (error as Error).name !== 'ReplyError') throw error;
  return code as 'OOM';
}
