import { type Redis } from 'ioredis';
import { differences, inconsistencies } from './hash-checks.js';
import { type Ask, LockModel } from './lock-model.js';
import { PromiseWatch } from './promises.js';
import { type Action, DEAD_CLIENT, type Game, type Profile } from './random-steps.js';
import { type AnyScripts, type Operands, runScript } from './run-script.js';

/** A server connection, another that listens to the channels of the live clients, and the scripts to test. */
export interface Arena {
  readonly redis: Redis;
  readonly scripts: AnyScripts;
  readonly channelPrefix: string;
  /** Gives the messages published so far, one `client message` each, and forgets them. */
  published(): Promise<string[]>;
}

type Command =
  | { readonly name: 'acquire'; readonly ask: Ask }
  | { readonly name: 'release'; readonly attempt: string; readonly minHoldMs: number }
  | { readonly name: 'renew'; readonly attempt: string; readonly token: string; readonly leaseMs: number };

const KEEP_MS = 12_000;
let games = 0;

/** Plays one random game on a lock of its own, against the model. */
export class LockGame {
  operations = 0;
  readonly #key = `game:${process.pid}:${(games += 1)}`;
  readonly #model = new LockModel((client) => client !== DEAD_CLIENT);
  readonly #watch = new PromiseWatch();
  readonly #asks = new Map<string, Ask>();
  readonly #sent: Command[] = [];
  readonly #trace: string[] = [];
  readonly #startedAt = performance.now();
  #micros = 1_800_000_000_000_000;

  constructor(readonly arena: Arena) {}

  async play({ profile, steps }: Game): Promise<void> {
    try {
      for (const { advanceMicros, action } of steps) {
        const before = this.#now;
        this.#micros += advanceMicros;
        if (this.#now < before) this.#watch.clockSteppedBack(before - this.#now);
        await this.#run(this.#commandOf(action, profile));
      }
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#trace.slice(-30).join('\n')}`, { cause: error });
    } finally {
      await this.arena.redis.unlink(this.#key);
    }
  }

  get #now(): number {
    return Math.floor(this.#micros / 1000);
  }

  #commandOf(action: Action, profile: Profile): Command {
    const all = [...this.#asks.keys()];
    const choose = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];
    // Mostly somebody of whom the lock knows, at times anybody.
    const attemptOf = (known: string[], pick: number): string | undefined =>
      known.length > 0 && pick % 8 > 0 ? choose(known, pick) : choose(all, pick);
    const waiting = this.#model.queue.map(({ attempt }) => attempt);
    const holding = [...this.#model.holds.keys()];
    switch (action.kind) {
      case 'acquire':
        return { name: 'acquire', ask: this.#newAsk(action, profile) };
      case 'poll': {
        const ask = this.#asks.get(attemptOf(waiting, action.pick) ?? '') ?? this.#newAsk(undefined, profile);
        return { name: 'acquire', ask: action.last ? { ...ask, waiterLeaseMs: 0 } : ask };
      }
      case 'release': {
        const attempt = attemptOf([...holding, ...waiting], action.pick) ?? 'nobody.000001';
        return { name: 'release', attempt, minHoldMs: action.minHoldMs };
      }
      case 'renew': {
        const attempt = attemptOf(holding, action.pick) ?? 'nobody.000001';
        const known = this.#watch.tokenOf(attempt) ?? 1;
        const token = action.foreign ? (action.pick % 2) * (known - 1) : known;
        return { name: 'renew', attempt, token: `${token}`, leaseMs: action.leaseMs };
      }
      default:
        return choose(this.#sent.slice(-25), action.pick) ?? { name: 'acquire', ask: this.#newAsk(undefined, profile) };
    }
  }

  #newAsk(action: Extract<Action, { kind: 'acquire' }> | undefined, profile: Profile): Ask {
    const fallback = {
      client: 'c1-8f2e91a',
      owner: '-',
      mode: 'write',
      leaseMs: 10_000,
      waiterLeaseMs: 30_000,
      fair: 1,
    };
    const { client, ...wish } = action ?? fallback;
    const allowed = <T>(wanted: T, list: readonly T[]): T => (list.includes(wanted) ? wanted : list[0]!);
    // Numbered by client: two of the clients leave the same fingerprints when they are released.
    const number = [...this.#asks.keys()].filter((known) => known.startsWith(client)).length + 1;
    const attempt = `${client}.${String(number).padStart(6, '0')}`;
    const ask: Ask = {
      attempt,
      owner: allowed(wish.owner, profile.owners),
      mode: allowed(wish.mode, profile.modes),
      fair: allowed(wish.fair, profile.fairness),
      leaseMs: wish.leaseMs,
      waiterLeaseMs: wish.waiterLeaseMs,
      limit: profile.limit,
      holder: `host:1 ${attempt}`,
    };
    this.#asks.set(attempt, ask);
    return ask;
  }

  async #run(command: Command): Promise<void> {
    this.operations += 1;
    this.#sent.push(command);
    const { redis, scripts, channelPrefix } = this.arena;
    const common = { lock: this.#key, nowMicros: `${this.#micros}`, keepMs: KEEP_MS, channelPrefix, countReceivers: 1 };
    const { name, ...rest } = command;
    const operands = (name === 'acquire' ? command.ask : rest) as unknown as Operands;
    const expected = this.#expect(command);
    this.#trace.push(`${this.#now} ${name} ${JSON.stringify(operands)} expects ${expected.join(' ')}`);
    const reply = runScript(redis, scripts[name], { ...common, ...operands });
    // Sent together: neither the watcher nor the listener costs a round trip of its own.
    const [text, hash, ttl, pushes] = await Promise.all([
      reply.then((values) => values.map(String)),
      redis.hgetall(this.#key),
      redis.pttl(this.#key),
      this.arena.published(),
    ]);
    this.#trace.push(`  got ${text.join(' ')}${pushes.length > 0 ? `; pushed ${pushes.join(', ')}` : ''}`);
    this.#watchPromises(command, text, pushes);
    compare('reply', ...bounded(text, expected));
    compare('pushes', pushes.join(', '), this.#model.pushes.splice(0).join(', '));
    const faults = [...inconsistencies(hash), ...differences(hash, this.#model), ...this.#tooShort(hash, ttl)];
    if (faults.length > 0) throw new Error(`${faults.join('; ')}\n${JSON.stringify(hash, undefined, 1)}`);
  }

  #expect(command: Command): string[] {
    if (command.name === 'acquire') return this.#model.acquire(this.#micros, command.ask);
    if (command.name === 'release') return this.#model.release(this.#micros, command);
    return this.#model.renew(this.#micros, command);
  }

  #watchPromises(command: Command, [outcome, attempt, now, fourth, fifth]: string[], pushes: string[]): void {
    if (outcome === 'released' && command.name === 'release') {
      this.#watch.released(attempt!, Number(now), command.minHoldMs);
    }
    if (outcome === 'renewed') this.#watch.renewed(attempt!, Number(now), Number(fourth));
    const told = outcome === 'granted' ? [[attempt!, fourth!, now!, fifth!]] : [];
    const handed = pushes.map((push) => push.split(' ')).filter(([, kind]) => kind === 'granted');
    const grants = [...handed.map((words) => words.slice(2)), ...told];
    for (const [who, token, at, remaining] of grants.sort((a, b) => Number(a[1]) - Number(b[1]))) {
      const ask = this.#asks.get(who!)!;
      this.#watch.granted({ ask, token: Number(token), now: Number(at), remaining: Number(remaining) });
    }
  }

  /** The key must outlive all that is in it. Its own time to live runs in real time, unlike the clock of the game. */
  #tooShort(hash: Readonly<Record<string, string>>, ttl: number): string[] {
    if (Object.keys(hash).length === 0) return [];
    const elapsed = Math.ceil(performance.now() - this.#startedAt) + 5;
    const remaining = [...this.#model.holds.values()].map(({ deadline }) => deadline - this.#now);
    const least = Math.max(KEEP_MS / 2, ...remaining);
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
