import { type Redis } from 'ioredis';
import { type ModelledScript, ScriptModel } from '../support/model/script-model.js';
import { type Values, valuesOf } from '../support/redis/wire-values.js';
import { type Command, keysOf, MAX_AGE_MS } from './commands.js';
import { Conditions } from './conditions.js';
import { NextCommand, START_MS } from './next-command.js';
import { type Action, DEAD_CLIENT, DEAF_CLIENT, type Game } from './random-steps.js';
import { Referee } from './referee.js';
import {
  type AnyScripts,
  FAR_MS,
  type Neighbours,
  isOperation,
  runInBatch,
  runScript,
  wireValues,
} from './run-script.js';

/** A server connection, another that listens to the channels of the live clients, and the scripts to test. */
export interface Arena {
  readonly redis: Redis;
  readonly scripts: AnyScripts;
  readonly channelPrefix: string;
  /** Gives the messages published so far, one `client message` each, and forgets them. */
  published(): Promise<string[]>;
  /** Has a client listen, or no more. */
  listen(client: string, on: boolean): Promise<void>;
}

/** As with the defaults, it outlasts every place in a queue, and every command. */
const KEEP_MS = 31_000;
/** Longer than the time to live of a lock that is free. */
const REMEMBER_MS = 48_000;
let games = 0;

/** What a script said, and what is in Redis since. */
interface Heard {
  readonly reply: readonly string[];
  readonly pushes: readonly string[];
  readonly records: readonly LockRecord[];
}

interface LockRecord {
  readonly key: string;
  readonly hash: Readonly<Record<string, string>>;
  readonly expiresAt: number;
}

/** Plays one random game on locks of its own, against the model. */
export class LockGame {
  operations = 0;
  readonly #keys: readonly string[];
  readonly #neighbours: Neighbours;
  readonly #model: ScriptModel;
  readonly #conditions: Conditions;
  readonly #referee: Referee;
  readonly #next: NextCommand;
  readonly #trace: string[] = [];
  /** What the model has published since it was asked last. */
  readonly #pushes: string[] = [];
  #micros = START_MS * 1_000;
  /** Whether the deaf client has a subscriber now, and whether it always had one. */
  #listens = true;
  #hasAlwaysListened = true;

  constructor(
    readonly arena: Arena,
    readonly game: Game,
    /** Without the exact model, only broken promises are noticed. */
    readonly exact: boolean,
  ) {
    const name = `game:${process.pid}:${(games += 1)}`;
    this.#neighbours = { lock: `${name}:beside`, stranger: `${name}:stranger` };
    this.#keys = Array.from({ length: game.profile.locks }, (_, i) => `${name}:${i}`);
    const clientOf = (channel: string): string => channel.slice(arena.channelPrefix.length);
    this.#model = new ScriptModel({
      micros: () => this.#micros,
      subscribers: (channel) => (this.#hears(clientOf(channel)) ? 1 : 0),
      publish: (channel, message) => {
        if (this.#hears(clientOf(channel))) this.#pushes.push(`${clientOf(channel)} ${message}`);
      },
    });
    this.#conditions = new Conditions(arena.redis, this.#model, this.#keys);
    this.#next = new NextCommand({
      keys: this.#keys,
      profile: game.profile,
      look: (key) => this.#model.look(key),
      tokenOf: (key, attempt) => this.#referee.tokenOf(key, attempt),
      micros: () => this.#micros,
    });
    const isJudged = (client: string): boolean => this.#isJudged(client);
    this.#referee = new Referee(this.#keys, isJudged, this.#next.requests, REMEMBER_MS);
  }

  async play(): Promise<void> {
    await this.arena.redis.set(this.#neighbours.stranger, 'mine');
    try {
      for (const { advanceMicros, action } of this.game.steps) await this.#step(advanceMicros, action);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#trace.slice(-30).join('\n')}`, { cause: error });
    } finally {
      await this.#conditions.change('none');
      await this.#listen(true);
      await this.arena.redis.unlink(...this.#keys, ...Object.values(this.#neighbours));
    }
  }

  async #step(advanceMicros: number, action: Action): Promise<void> {
    const before = this.#now;
    const kept = this.#keys.filter((key) => this.#isKept(key));
    this.#micros += advanceMicros;
    const back = before - this.#now;
    if (back > 0) this.#referee.clockSteppedBack(back);
    const over = kept.filter((key) => !this.#isKept(key));
    if (over.length > 0) await this.#expire(over);
    if (action.kind === 'listen') await this.#listen(action.on);
    else if (action.kind === 'condition') await this.#change(action.condition);
    else await this.#run(this.#next.of(action));
  }

  #isKept(key: string): boolean {
    return this.#model.look(key).expiresAt !== undefined;
  }

  /** The time to live of these keys is over: the clock of Redis does not know. */
  async #expire(keys: readonly string[]): Promise<void> {
    await this.#conditions.change('none');
    this.#trace.push(`${this.#now} expired: ${keys.join(', ')}`);
    for (const key of keys) this.#referee.expired(key, this.#now);
    this.#model.delete(keys);
    await this.arena.redis.unlink(...keys);
  }

  async #change(condition: Extract<Action, { kind: 'condition' }>['condition']): Promise<void> {
    this.#trace.push(`${this.#now} condition: ${condition}`);
    await this.#conditions.change(condition);
  }

  #hears(client: string): boolean {
    return client !== DEAD_CLIENT && (client !== DEAF_CLIENT || this.#listens);
  }

  /** The order in which those are served for whom nobody listens at times is not judged: they are passed over. */
  #isJudged(client: string): boolean {
    return client !== DEAD_CLIENT && (client !== DEAF_CLIENT || this.#hasAlwaysListened);
  }

  async #listen(on: boolean): Promise<void> {
    if (on === this.#listens) return;
    this.#listens = on;
    if (!on) this.#hasAlwaysListened = false;
    this.#referee.forgetOrder(DEAF_CLIENT);
    await this.arena.listen(DEAF_CLIENT, on);
  }

  get #now(): number {
    return Math.floor(this.#micros / 1000);
  }

  async #run(command: Command): Promise<void> {
    this.operations += 1;
    const { name, values } = this.#valuesOf(command);
    const script = this.arena.scripts[name];
    const received = valuesOf(script, script.operands(wireValues(values) as never));
    const expected = replyOrError(() => this.#model.run(name, received).map(String));
    this.#trace.push(`${this.#now} ${JSON.stringify(command)} expects ${expected.join(' ')}`);
    const heard = await this.#send(name, values);
    const { reply, pushes } = heard;
    this.#trace.push(`  got ${reply.join(' ')}${pushes.length > 0 ? `; pushed ${pushes.join(', ')}` : ''}`);
    this.#referee.judge(command, { reply, pushes, now: this.#now });
    const told = this.#pushes.splice(0);
    if (!this.exact) return;
    compare('reply', reply.join(' '), expected.join(' '));
    compare('pushes', pushes.join(', '), told.join(', '));
    for (const record of heard.records) this.#compareRecord(record);
  }

  /** Sent together: neither the watcher nor the listener costs a round trip of its own. */
  async #send(name: ModelledScript, values: Values): Promise<Heard> {
    const { redis } = this.arena;
    const visible = this.#keys.filter((key) => !this.#conditions.hides(key));
    const [reply, pushes, ...records] = await Promise.all([
      this.#runOn(name, values).then((reply) => reply.map(String), errorReply),
      this.arena.published(),
      ...visible.map(async (key) => {
        const [hash, at] = await Promise.all([redis.hgetall(key), redis.pexpiretime(key)]);
        return { key, hash, expiresAt: at < 0 ? at : at - FAR_MS };
      }),
    ]);
    return { reply, pushes, records };
  }

  /** Every second one that can travel with others does so; in a special condition, the others would not do what they do. */
  #runOn(name: ModelledScript, values: Values): Promise<string[]> {
    const { redis, scripts } = this.arena;
    const isBatched = isOperation(name) && this.operations % 2 === 0 && !this.#conditions.isSpecial;
    return isBatched
      ? runInBatch(redis, scripts, { name, values }, this.#neighbours)
      : runScript(redis, scripts[name], values);
  }

  #valuesOf(command: Command): { name: ModelledScript; values: Values } {
    const { channelPrefix } = this.arena;
    const common = { nowMicros: `${this.#micros}`, keepMs: KEEP_MS, channelPrefix, countReceivers: 1 };
    const lock = keysOf(command);
    if (command.name !== 'acquire') return { name: command.name, values: { ...common, ...command, lock: command.key } };
    const { request, sentMicros } = command;
    const untilMicros = `${sentMicros + MAX_AGE_MS * 1_000}`;
    const values = { ...common, ...request, sentMicros: `${sentMicros}`, untilMicros, rememberMs: REMEMBER_MS };
    return lock.length > 1
      ? { name: 'acquireMany', values: { ...values, lock } }
      : { name: 'acquire', values: { ...values, lock: lock[0]! } };
  }

  #compareRecord({ key, hash, expiresAt }: LockRecord): void {
    const model = this.#model.look(key);
    const faults = differences(hash, this.#model.hash(key));
    if (expiresAt !== (model.expiresAt ?? -2))
      faults.push(`expires at ${expiresAt}, model ${model.expiresAt ?? 'none'}`);
    if (faults.length > 0) throw new Error(`${key}: ${faults.join('; ')}\n${JSON.stringify(hash, undefined, 1)}`);
  }
}

/** Where a hash has other fields than that of the model. */
function differences(hash: Readonly<Record<string, string>>, model: Readonly<Record<string, string>>): string[] {
  return [...new Set([...Object.keys(hash), ...Object.keys(model)])]
    .filter((field) => hash[field] !== model[field] && !(field === 'fence' && model[field] === undefined))
    .map((field) => `${field}: [${hash[field]}], model [${model[field]}]`);
}

/** The errors of which the model knows when Redis gives them. */
const KNOWN_ERRORS = /^(WRONGTYPE|OOM|READONLY) /;

function errorReply(error: unknown): string[] {
  const [code] = KNOWN_ERRORS.exec((error as Error).message) ?? [];
  if (code === undefined) throw error;
  return ['error', code.trim()];
}

function replyOrError(run: () => string[]): string[] {
  try {
    return run();
  } catch (error) {
    return errorReply(error);
  }
}

function compare(what: string, is: string, should: string): void {
  if (is !== should) throw new Error(`${what}: got [${is}], the model says [${should}]`);
}
