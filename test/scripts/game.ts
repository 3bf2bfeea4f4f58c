import { type Redis } from 'ioredis';
import { type Ask, type Command } from './commands.js';
import { differences, inconsistencies } from './hash-checks.js';
import { ExactModel } from './exact-model.js';
import { type Action, DEAD_CLIENT, type Game, JOBS, NO_FIRE, type Profile } from './random-steps.js';
import { Referee } from './referee.js';
import { type AnyScripts, type Operands, runScript } from './run-script.js';

/** A server connection, another that listens to the channels of the live clients, and the scripts to test. */
export interface Arena {
  readonly redis: Redis;
  readonly scripts: AnyScripts;
  readonly channelPrefix: string;
  /** Gives the messages published so far, one `client message` each, and forgets them. */
  published(): Promise<string[]>;
}

const KEEP_MS = 12_000;
const REMEMBER_MS = 25_000;
const START_MS = 1_800_000_000_000;
let games = 0;
const choose = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];
const hears = (client: string): boolean => client !== DEAD_CLIENT;

/** Plays one random game on locks of its own, against the model. */
export class LockGame {
  operations = 0;
  readonly #keys: readonly string[];
  readonly #model = new ExactModel(hears, { keepMs: KEEP_MS, rememberMs: REMEMBER_MS });
  readonly #referee: Referee;
  readonly #asks = new Map<string, Ask>();
  readonly #sent: Command[] = [];
  readonly #trace: string[] = [];
  readonly #startedAt = performance.now();
  #micros = START_MS * 1_000;
  #operatorCommands = 0;

  constructor(
    readonly arena: Arena,
    readonly game: Game,
    /** Without the exact model, only broken promises are noticed. */
    readonly exact: boolean,
  ) {
    const name = `game:${process.pid}:${(games += 1)}`;
    this.#keys = Array.from({ length: game.profile.locks }, (_, i) => `${name}:${i}`);
    this.#referee = new Referee(this.#keys, hears, this.#asks, REMEMBER_MS);
  }

  async play(): Promise<void> {
    try {
      for (const { advanceMicros, action } of this.game.steps) {
        const before = this.#now;
        this.#micros += advanceMicros;
        const back = before - this.#now;
        if (back > 0) this.#referee.clockSteppedBack(back);
        await this.#run(this.#commandOf(action));
      }
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#trace.slice(-30).join('\n')}`, { cause: error });
    } finally {
      await this.arena.redis.unlink(...this.#keys);
    }
  }

  get #now(): number {
    return Math.floor(this.#micros / 1000);
  }

  #commandOf(action: Action): Command {
    if (action.kind === 'acquire') return { name: 'acquire', ask: this.#newAsk(action) };
    if (action.kind === 'again') return choose(this.#sent.slice(-25), action.pick) ?? this.#plainAcquire();
    const key = choose(this.#keys, Math.floor(action.pick / 331))!;
    const { queue, holds } = this.#model.lock(key);
    const waiting = queue.map(({ attempt }) => attempt);
    const holding = [...holds.keys()];
    // Mostly somebody of whom the lock knows, at times anybody.
    const attemptOf = (known: string[]): string | undefined =>
      choose(known.length > 0 && action.pick % 8 > 0 ? known : [...this.#asks.keys()], action.pick);
    const holder = attemptOf(holding) ?? 'nobody.000001';
    const known = this.#referee.tokenOf(key, holder) ?? 1;
    const token = `${'foreign' in action && action.foreign ? (action.pick % 2) * (known - 1) : known}`;
    switch (action.kind) {
      case 'poll': {
        const ask = this.#asks.get(attemptOf(waiting) ?? '');
        if (!ask) return this.#plainAcquire();
        return { name: 'acquire', ask: action.last ? { ...ask, waiterLeaseMs: 0 } : ask };
      }
      case 'release': {
        const attempt = attemptOf([...holding, ...waiting]) ?? 'nobody.000001';
        const { minHoldMs, runOutcome } = action;
        return { name: 'release', key, attempt, minHoldMs, job: this.#jobOf(attempt, action.pick), runOutcome };
      }
      case 'renew':
        return { name: 'renew', key, attempt: holder, token, leaseMs: action.leaseMs };
      case 'downgrade':
        return { name: 'downgrade', key, attempt: holder, token };
      default:
        this.#operatorCommands += 1;
        return { name: 'forceRelease', key, attempt: `op.force${String(this.#operatorCommands).padStart(3, '0')}` };
    }
  }

  /** That of the attempt; at times another one, which is none of its business. */
  #jobOf(attempt: string, pick: number): string {
    return pick % 16 === 15 ? choose(JOBS, pick >> 4)! : (this.#asks.get(attempt)?.job ?? '-');
  }

  #plainAcquire(): Command {
    const who = { client: 'c1-8f2e91a', owner: '-', keys: 0, fire: NO_FIRE };
    const ask = { ...who, mode: 'write', leaseMs: 10_000, waiterLeaseMs: 30_000, fair: 1 };
    return { name: 'acquire', ask: this.#newAsk({ kind: 'acquire', ...ask }) };
  }

  #newAsk({ client, keys, fire, ...wish }: Extract<Action, { kind: 'acquire' }>): Ask {
    const { modes, fairness, owners, limit, jobs }: Profile = this.game.profile;
    const allowed = <T>(wanted: T, list: readonly T[]): T => (list.includes(wanted) ? wanted : list[0]!);
    // Numbered by client: two of the clients leave the same fingerprints when they are released.
    const number = [...this.#asks.keys()].filter((known) => known.startsWith(client)).length + 1;
    const attempt = `${client}.${String(number).padStart(6, '0')}`;
    const mode = allowed(wish.mode, modes);
    // Each bit of the number chooses a lock, so that several are chosen often.
    const several = this.#keys.filter((_, i) => (keys >> i) % 2 === 1);
    const named = several.length > 0 ? several : this.#keys.slice(0, 1);
    const claims = jobs && mode === 'write' && fire.fireKind !== '-' && named.length === 1;
    const fireMs = fire.fireKind === 'at' ? START_MS + fire.fireMs : fire.fireMs;
    const ask: Ask = {
      keys: named,
      attempt,
      mode,
      owner: allowed(wish.owner, owners),
      fair: allowed(wish.fair, fairness),
      leaseMs: wish.leaseMs,
      waiterLeaseMs: wish.waiterLeaseMs,
      limit,
      holder: `host:1 ${attempt}`,
      ...(claims ? { ...fire, fireMs } : NO_FIRE),
    };
    this.#asks.set(attempt, ask);
    return ask;
  }

  async #run(command: Command): Promise<void> {
    this.operations += 1;
    this.#sent.push(command);
    this.#model.micros = this.#micros;
    const expected = this.#model.reply(command).map(String);
    const { redis } = this.arena;
    const { name, operands } = this.#operandsOf(command);
    this.#trace.push(`${this.#now} ${JSON.stringify(command)} expects ${expected.join(' ')}`);
    const reply = runScript(redis, this.arena.scripts[name], operands);
    // Sent together: neither the watcher nor the listener costs a round trip of its own.
    const [text, pushes, ...hashes] = await Promise.all([
      reply.then((values) => values.map(String)),
      this.arena.published(),
      ...this.#keys.map(async (key) => {
        const [hash, ttl] = await Promise.all([redis.hgetall(key), redis.pttl(key)]);
        return { key, hash, ttl };
      }),
    ]);
    this.#trace.push(`  got ${text.join(' ')}${pushes.length > 0 ? `; pushed ${pushes.join(', ')}` : ''}`);
    this.#referee.judge(command, { reply: text, pushes, now: this.#now });
    const told = this.#model.pushes.splice(0);
    if (!this.exact) return;
    compare('reply', ...bounded(text, expected));
    compare('pushes', pushes.join(', '), told.join(', '));
    for (const { key, hash, ttl } of hashes) {
      const model = this.#model.lock(key);
      const faults = [...inconsistencies(hash), ...differences(hash, model)];
      if (keysOf(command).includes(key)) faults.push(...this.#tooShort(key, hash, ttl));
      if (faults.length > 0) throw new Error(`${key}: ${faults.join('; ')}\n${JSON.stringify(hash, undefined, 1)}`);
    }
  }

  #operandsOf(command: Command): { name: keyof AnyScripts; operands: Operands } {
    const { channelPrefix } = this.arena;
    const common = { nowMicros: `${this.#micros}`, keepMs: KEEP_MS, channelPrefix, countReceivers: 1 };
    if (command.name !== 'acquire') {
      return { name: command.name, operands: { ...common, ...command, lock: command.key } };
    }
    const { keys } = command.ask;
    const wish = { ...common, ...command.ask, rememberMs: REMEMBER_MS };
    return keys.length > 1
      ? { name: 'acquireMany', operands: { ...wish, lock: keys } }
      : { name: 'acquire', operands: { ...wish, lock: keys[0]! } };
  }

  /** The key must outlive all that is in it. Its own time to live runs in real time, unlike the clock of the game. */
  #tooShort(key: string, hash: Readonly<Record<string, string>>, ttl: number): string[] {
    if (Object.keys(hash).length === 0) return [];
    const elapsed = Math.ceil(performance.now() - this.#startedAt) + 5;
    const remaining = [...this.#model.lock(key).holds.values()].map(({ deadline }) => deadline - this.#now);
    const least = Math.max('jobs' in hash ? REMEMBER_MS : KEEP_MS / 2, ...remaining);
    return ttl + elapsed >= least ? [] : [`time to live ${ttl} is less than ${least}`];
  }
}

/** `busy` gives a time to retry that may be too early and a place that may be too far back, never the other way round. */
function bounded(reply: string[], expected: string[]): [string, string] {
  const [outcome, , , retry, ahead] = reply;
  const [wanted, , , latest, nearest] = expected.map(Number);
  if (outcome === 'busy' && expected[0] === 'busy' && wanted !== undefined) {
    const retryFits = Number(retry) <= latest! && Number(retry) > 0 === latest! > 0;
    if (retryFits && Number(ahead) >= nearest!)
      return [reply.toSpliced(3, 2).join(' '), expected.toSpliced(3, 2).join(' ')];
  }
  return [reply.join(' '), expected.join(' ')];
}

function compare(what: string, is: string, should: string): void {
  if (is !== should) throw new Error(`${what}: got [${is}], the model says [${should}]`);
}

const keysOf = (command: Command): readonly string[] => (command.name === 'acquire' ? command.ask.keys : [command.key]);
