import { type Command, MAX_AGE_MS, type Request } from './commands.js';
import { type Action, JOBS, NO_FIRE, type Profile } from './random-steps.js';

/** When a game begins. */
export const START_MS = 1_800_000_000_000;

/** The state of a game when a command is chosen. */
interface Known {
  readonly keys: readonly string[];
  readonly profile: Profile;
  look(key: string): {
    readonly holds: ReadonlyMap<string, unknown>;
    readonly queue: readonly { readonly attempt: string }[];
  };
  /** The token that an attempt had last. */
  tokenOf(key: string, attempt: string): number | undefined;
  micros(): number;
}

/** An action that is sent as a command. */
export type Sent = Exclude<Action, { kind: 'listen' | 'condition' }>;

const NOBODY = 'nobody.000001';
const choose = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];

/** Makes commands of the actions of a game, about what exists by then. */
export class NextCommand {
  /** All requests of the game, by their attempts. */
  readonly requests = new Map<string, Request>();
  readonly #sent: Command[] = [];
  #operatorCommands = 0;

  constructor(private readonly known: Known) {}

  of(action: Sent): Command {
    const command = this.#commandOf(action);
    this.#sent.push(command);
    return command;
  }

  #commandOf(action: Sent): Command {
    if (action.kind === 'acquire') return this.#acquire(this.#newRequest(action));
    if (action.kind === 'again') return choose(this.#sent.slice(-25), action.pick) ?? this.#plainAcquire();
    const key = choose(this.known.keys, Math.floor(action.pick / 331))!;
    const { queue, holds } = this.known.look(key);
    const waiting = queue.map(({ attempt }) => attempt);
    const holding = [...holds.keys()];
    // Mostly an attempt that the lock has, at times any other.
    const attemptOf = (known: string[]): string | undefined =>
      choose(known.length > 0 && action.pick % 8 > 0 ? known : [...this.requests.keys()], action.pick);
    if (action.kind === 'poll') {
      const request = this.requests.get(attemptOf(waiting) ?? '');
      if (!request) return this.#plainAcquire();
      return this.#acquire(action.last ? { ...request, waiterLeaseMs: 0 } : request);
    }
    if (action.kind === 'release') {
      const attempt = attemptOf([...holding, ...waiting]) ?? NOBODY;
      const { holdAtLeastMs, unanswered, repeated, pick } = action;
      const job = this.#jobOf(attempt, pick);
      const runOutcome = job === '-' ? '-' : action.runOutcome;
      return { name: 'release', key, attempt, holdAtLeastMs, job, runOutcome, unanswered, repeated };
    }
    if (action.kind === 'setPermits') {
      const { permits } = action;
      return { name: 'setPermits', key, attempt: this.#operator(), permits };
    }
    return this.#ofHold(action, key, attemptOf(holding) ?? NOBODY);
  }

  /** A command about a hold, which is at times gone, or has another token. */
  #ofHold(
    action: Exclude<Sent, { kind: 'acquire' | 'again' | 'poll' | 'release' | 'setPermits' }>,
    key: string,
    attempt: string,
  ): Command {
    const { pick } = action;
    const known = this.known.tokenOf(key, attempt) ?? 1;
    const token = 'foreign' in action && action.foreign ? (pick % 2) * (known - 1) : known;
    switch (action.kind) {
      case 'renew': {
        // At times of one whose downgrade did not arrive.
        const mode = pick % 4 === 3 ? 'read' : 'write';
        return { name: 'renew', key, attempt, token, leaseMs: action.leaseMs, mode };
      }
      case 'downgrade':
        return { name: 'downgrade', key, attempt, token };
      case 'adopt': {
        const { client, leaseMs, unanswered } = action;
        const adopter = this.#nextAttempt(client);
        const asked = this.requests.get(attempt) ?? this.#plainRequest();
        const holder = `host:2 ${adopter}`;
        this.requests.set(adopter, { ...asked, ...NO_FIRE, keys: [key], attempt: adopter, holder });
        return { name: 'adopt', key, attempt: adopter, from: attempt, token, leaseMs, holder, unanswered };
      }
      case 'writeBack':
        return { name: 'writeBack', key, attempt, token, newToken: Math.max(known + action.by, 1) };
      default: {
        // At times the operator read the state long ago.
        return {
          name: 'forceRelease',
          key,
          attempt: this.#operator(),
          seenToken: pick % 4 === 0 ? known : Number.MAX_SAFE_INTEGER,
        };
      }
    }
  }

  #operator(): string {
    this.#operatorCommands += 1;
    return `op.force${String(this.#operatorCommands).padStart(3, '0')}`;
  }

  /** That of the attempt; at times an unrelated one. */
  #jobOf(attempt: string, pick: number): string {
    return pick % 16 === 15 ? choose(JOBS, pick >> 4)! : (this.requests.get(attempt)?.job ?? '-');
  }

  #plainAcquire(): Command {
    return this.#acquire(this.#plainRequest());
  }

  #plainRequest(): Request {
    const who = { client: 'c1-8f2e91a', owner: '-', keys: 0, fire: NO_FIRE };
    const request = { ...who, mode: 'write', leaseMs: 10_000, waiterLeaseMs: 30_000, fair: 1 };
    return this.#newRequest({ kind: 'acquire', ...request });
  }

  /** Numbered by client: two of the clients leave the same fingerprints when they are released. */
  #nextAttempt(client: string): string {
    const number = [...this.requests.keys()].filter((known) => known.startsWith(client)).length + 1;
    return `${client}.${String(number).padStart(6, '0')}`;
  }

  #acquire(request: Request): Command {
    const sentMicros = this.known.micros();
    return { name: 'acquire', request, sentMicros, untilMicros: sentMicros + MAX_AGE_MS * 1_000 };
  }

  #newRequest({ client, keys, fire, ...action }: Extract<Action, { kind: 'acquire' }>): Request {
    const { modes, fairness, owners, permits, takes, maxWaiters, jobs } = this.known.profile;
    const allowed = <T>(wanted: T, list: readonly T[]): T => (list.includes(wanted) ? wanted : list[0]!);
    const attempt = this.#nextAttempt(client);
    const mode = allowed(action.mode, modes);
    // Each bit of the number chooses a lock, so that several are chosen often.
    const several = this.known.keys.filter((_, i) => (keys >> i) % 2 === 1);
    const named = several.length > 0 ? several : this.known.keys.slice(0, 1);
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
      // No more than there are, unless an operator lowers their number.
      take: mode === 'read' ? Math.min(takes[this.requests.size % takes.length]!, permits || Infinity) : 1,
      maxWaiters,
      holder: `host:1 ${attempt}`,
      ...(claims ? { ...fire, fireMs } : NO_FIRE),
    };
    this.requests.set(attempt, request);
    return request;
  }
}
