import { type Redis } from 'ioredis';
import { type Lua } from '../support/lua/lua.js';
import { type Values } from '../support/redis/wire-values.js';
import { type Command, keysOf, MAX_AGE_MS } from './commands.js';
import { Conditions } from './conditions.js';
import { LuaServer } from './lua-server.js';
import { NextCommand, START_MS } from './next-command.js';
import { type Action, CLIENTS, DEAD_CLIENT, DEAF_CLIENT, type Game } from './random-steps.js';
import { Referee } from './referee.js';
import {
  type AnyScripts,
  FAR_MS,
  type Neighbours,
  isOperation,
  runInBatch,
  runScript,
  virtualScripts,
} from './run-script.js';

/** The scripts as the library has them: the simulated server runs these, whatever the real one runs. */
const SCRIPTS = virtualScripts();

/** A server connection, another that listens to the channels of the live clients, and the scripts to test. */
export interface Arena {
  readonly redis: Redis;
  readonly lua: Lua;
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

/** Plays one random game on locks of its own, on a real server and on a simulated one. */
export class LockGame {
  operations = 0;
  readonly #keys: readonly string[];
  readonly #neighbours: Neighbours;
  readonly #model: LuaServer;
  readonly #conditions: Conditions;
  readonly #referee: Referee;
  readonly #next: NextCommand;
  readonly #trace: string[] = [];
  /** What the simulated server has published since it was asked last. */
  readonly #pushes: string[] = [];
  #micros = START_MS * 1_000;
  /** Whether the deaf client has a subscriber now, and whether it always had one. */
  #listens = true;
  #hasAlwaysListened = true;

  constructor(
    readonly arena: Arena,
    readonly game: Game,
    /** Without the simulated server, only broken promises are noticed. */
    readonly exact: boolean,
  ) {
    const name = `game:${process.pid}:${(games += 1)}`;
    this.#neighbours = { lock: `${name}:beside`, stranger: `${name}:stranger` };
    this.#keys = Array.from({ length: game.profile.locks }, (_, i) => `${name}:${i}`);
    const clientOf = (channel: string): string => channel.slice(arena.channelPrefix.length);
    const hearing = (): string[] => CLIENTS.filter((client) => this.#hears(client));
    this.#model = new LuaServer(arena.lua, SCRIPTS, {
      micros: () => this.#micros,
      listening: () =>
        hearing()
          .map((client) => `${arena.channelPrefix}${client}\n1\n`)
          .join(''),
      publish: (channel, message) => {
        if (hearing().includes(clientOf(channel))) this.#pushes.push(`${clientOf(channel)} ${message}`);
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
    return (this.#model.expiresAt(key) ?? -Infinity) >= this.#now;
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
    const expected = replyOrError(() => this.#model.run(name, values));
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
  async #send(name: keyof AnyScripts, values: Values): Promise<Heard> {
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
  #runOn(name: keyof AnyScripts, values: Values): Promise<string[]> {
    const { redis, scripts } = this.arena;
    const isBatched = isOperation(name) && this.operations % 2 === 0 && !this.#conditions.isSpecial;
    return isBatched
      ? runInBatch(redis, scripts, { name, values }, this.#neighbours)
      : runScript(redis, scripts[name], values);
  }

  #valuesOf(command: Command): { name: keyof AnyScripts; values: Values } {
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
    const at = this.#model.expiresAt(key);
    const faults = differences(hash, this.#model.fields(key));
    if (expiresAt !== (at ?? -2)) faults.push(`expires at ${expiresAt}, simulated ${at ?? 'none'}`);
    if (faults.length > 0) throw new Error(`${key}: ${faults.join('; ')}\n${JSON.stringify(hash, undefined, 1)}`);
  }
}

/** Where a hash has other fields than the simulated one. */
function differences(hash: Readonly<Record<string, string>>, model: Readonly<Record<string, string>>): string[] {
  return [...new Set([...Object.keys(hash), ...Object.keys(model)])]
    .filter((field) => hash[field] !== model[field])
    .map((field) => `${field}: [${hash[field]}], simulated [${model[field]}]`);
}

/** The errors that both give. */
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
  if (is !== should) throw new Error(`${what}: got [${is}], the simulated server says [${should}]`);
}
