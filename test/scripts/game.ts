import { type Redis } from 'ioredis';
import { type Request, type Command, MAX_AGE_MS } from './commands.js';
import { differences, inconsistencies } from './hash-checks.js';
import { ExactModel } from './exact-model.js';
import { type Action, DEAD_CLIENT, DEAF_CLIENT, type Game, JOBS, NO_FIRE, type Profile } from './random-steps.js';
import { Referee } from './referee.js';
import { type AnyScripts, EVERY_TOKEN, type Operands, runScript } from './run-script.js';

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

const KEEP_MS = 12_000;
const REMEMBER_MS = 25_000;
const START_MS = 1_800_000_000_000;
let games = 0;
const choose = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];

/** Plays one random game on locks of its own, against the model. */
export class LockGame {
  operations = 0;
  readonly #keys: readonly string[];
  readonly #model = new ExactModel((client) => this.#hears(client), { keepMs: KEEP_MS, rememberMs: REMEMBER_MS });
  readonly #referee: Referee;
  readonly #requests = new Map<string, Request>();
  readonly #sent: Command[] = [];
  readonly #trace: string[] = [];
  readonly #startedAt = performance.now();
  #micros = START_MS * 1_000;
  /** The latest time of the game so far. */
  #latest = 0;
  #operatorCommands = 0;
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
    this.#keys = Array.from({ length: game.profile.locks }, (_, i) => `${name}:${i}`);
    this.#referee = new Referee(this.#keys, (client) => this.#isJudged(client), this.#requests, REMEMBER_MS);
  }

  async play(): Promise<void> {
    try {
      for (const { advanceMicros, action } of this.game.steps) {
        const before = this.#now;
        this.#micros += advanceMicros;
        const back = before - this.#now;
        if (back > 0) this.#referee.clockSteppedBack(back);
        if (action.kind === 'listen') await this.#listen(action.on);
        else await this.#run(this.#commandOf(action));
      }
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#trace.slice(-30).join('\n')}`, { cause: error });
    } finally {
      await this.#listen(true);
      await this.arena.redis.unlink(...this.#keys);
    }
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

  #commandOf(action: Exclude<Action, { kind: 'listen' }>): Command {
    if (action.kind === 'acquire') return this.#acquire(this.#newRequest(action));
    if (action.kind === 'again') return choose(this.#sent.slice(-25), action.pick) ?? this.#plainAcquire();
    const key = choose(this.#keys, Math.floor(action.pick / 331))!;
    const { queue, holds } = this.#model.lock(key);
    const waiting = queue.waiters.map(({ attempt }) => attempt);
    const holding = [...holds.keys()];
    // Mostly somebody of whom the lock knows, at times anybody.
    const attemptOf = (known: string[]): string | undefined =>
      choose(known.length > 0 && action.pick % 8 > 0 ? known : [...this.#requests.keys()], action.pick);
    const holder = attemptOf(holding) ?? 'nobody.000001';
    const known = this.#referee.tokenOf(key, holder) ?? 1;
    const token = `${'foreign' in action && action.foreign ? (action.pick % 2) * (known - 1) : known}`;
    switch (action.kind) {
      case 'poll': {
        const request = this.#requests.get(attemptOf(waiting) ?? '');
        if (!request) return this.#plainAcquire();
        return this.#acquire(action.last ? { ...request, waiterLeaseMs: 0 } : request);
      }
      case 'release': {
        const attempt = attemptOf([...holding, ...waiting]) ?? 'nobody.000001';
        const { holdAtLeastMs, runOutcome, unanswered } = action;
        const job = this.#jobOf(attempt, action.pick);
        return { name: 'release', key, attempt, holdAtLeastMs, job, runOutcome, unanswered };
      }
      case 'renew': {
        // At times of one whose downgrade did not arrive.
        const mode = action.pick % 4 === 3 ? 'read' : 'write';
        return { name: 'renew', key, attempt: holder, token, leaseMs: action.leaseMs, mode };
      }
      case 'downgrade':
        return { name: 'downgrade', key, attempt: holder, token };
      default:
        this.#operatorCommands += 1;
        return {
          name: 'forceRelease',
          key,
          attempt: `op.force${String(this.#operatorCommands).padStart(3, '0')}`,
          // At times the operator looked long ago.
          seenToken: action.pick % 4 === 0 ? `${known}` : EVERY_TOKEN,
        };
    }
  }

  /** That of the attempt; at times another one, which is none of its business. */
  #jobOf(attempt: string, pick: number): string {
    return pick % 16 === 15 ? choose(JOBS, pick >> 4)! : (this.#requests.get(attempt)?.job ?? '-');
  }

  #plainAcquire(): Command {
    const who = { client: 'c1-8f2e91a', owner: '-', keys: 0, fire: NO_FIRE };
    const request = { ...who, mode: 'write', leaseMs: 10_000, waiterLeaseMs: 30_000, fair: 1 };
    return this.#acquire(this.#newRequest({ kind: 'acquire', ...request }));
  }

  #acquire(request: Request): Command {
    return { name: 'acquire', request, sentMicros: this.#micros };
  }

  #newRequest({ client, keys, fire, ...action }: Extract<Action, { kind: 'acquire' }>): Request {
    const { modes, fairness, owners, permits, jobs }: Profile = this.game.profile;
    const allowed = <T>(wanted: T, list: readonly T[]): T => (list.includes(wanted) ? wanted : list[0]!);
    // Numbered by client: two of the clients leave the same fingerprints when they are released.
    const number = [...this.#requests.keys()].filter((known) => known.startsWith(client)).length + 1;
    const attempt = `${client}.${String(number).padStart(6, '0')}`;
    const mode = allowed(action.mode, modes);
    // Each bit of the number chooses a lock, so that several are chosen often.
    const several = this.#keys.filter((_, i) => (keys >> i) % 2 === 1);
    const named = several.length > 0 ? several : this.#keys.slice(0, 1);
    const claims = jobs && mode === 'write' && fire.fireKind !== '-' && named.length === 1;
    const fireMs = fire.fireKind === 'at' ? START_MS + fire.fireMs : fire.fireMs;
    const request: Request = {
      keys: named,
      attempt,
      mode,
      owner: allowed(action.owner, owners),
      fair: allowed(action.fair, fairness),
      leaseMs: action.leaseMs,
      waiterLeaseMs: action.waiterLeaseMs,
      permits,
      holder: `host:1 ${attempt}`,
      ...(claims ? { ...fire, fireMs } : NO_FIRE),
    };
    this.#requests.set(attempt, request);
    return request;
  }

  async #run(command: Command): Promise<void> {
    this.operations += 1;
    this.#sent.push(command);
    this.#model.micros = this.#micros;
    this.#latest = Math.max(this.#latest, this.#now);
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
      if (keysOf(command).includes(key)) {
        const isFree = command.name === 'release' && this.#model.lock(key).holds.size === 0;
        faults.push(...this.#tooShort(key, hash, ttl), ...(isFree ? this.#tooLong(key, ttl) : []));
      }
      if (faults.length > 0) throw new Error(`${key}: ${faults.join('; ')}\n${JSON.stringify(hash, undefined, 1)}`);
    }
  }

  #operandsOf(command: Command): { name: keyof AnyScripts; operands: Operands } {
    const { channelPrefix } = this.arena;
    const common = { nowMicros: `${this.#micros}`, keepMs: KEEP_MS, channelPrefix, countReceivers: 1 };
    if (command.name !== 'acquire') {
      return { name: command.name, operands: { ...common, ...command, lock: command.key } };
    }
    const { request, sentMicros } = command;
    const { keys } = request;
    const operands = { ...common, ...request, sentMicros, maxAgeMs: MAX_AGE_MS, rememberMs: REMEMBER_MS };
    return keys.length > 1
      ? { name: 'acquireMany', operands: { ...operands, lock: keys } }
      : { name: 'acquire', operands: { ...operands, lock: keys[0]! } };
  }

  /**
   * The key must outlive all that is in it. Its own time to live runs in real time: a clock that is set back makes no lease
   * longer for its holder.
   */
  #tooShort(key: string, hash: Readonly<Record<string, string>>, ttl: number): string[] {
    if (Object.keys(hash).length === 0) return [];
    const elapsed = Math.ceil(performance.now() - this.#startedAt) + 5;
    const { holds } = this.#model.lock(key);
    const remaining = [...holds.values()].map(({ deadline }) => deadline - this.#latest);
    const least = Math.max(this.#rememberedUntil(key) - this.#latest, KEEP_MS / 2, ...remaining);
    return ttl + elapsed >= least ? [] : [`time to live ${ttl} is less than ${least}`];
  }

  #rememberedUntil(key: string): number {
    return Math.max(0, ...[...this.#model.lock(key).jobs.values()].map(({ until }) => until));
  }

  /** A free lock is kept for `keepMs`, or as long as its fires are remembered, whatever leases it had. */
  #tooLong(key: string, ttl: number): string[] {
    const most = Math.max(this.#rememberedUntil(key) - this.#now, KEEP_MS);
    return ttl <= most ? [] : [`time to live ${ttl} is more than ${most}`];
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

const keysOf = (command: Command): readonly string[] =>
  command.name === 'acquire' ? command.request.keys : [command.key];
