import { type Ask } from './commands.js';

/** What one client was told about its hold: the only thing that exclusion can be judged by. */
interface Belief {
  ask: Ask;
  readonly token: number;
  readonly since: number;
  /** Proven until then. Moves back with the clock: a lease is a length of time. */
  until: number;
  /** The latest end that was ever told, as a time of the server. */
  atMost: number;
  parked: boolean;
}

export interface Grant {
  readonly ask: Ask;
  readonly token: number;
  readonly now: number;
  readonly remaining: number;
}

/** Watches the replies alone, without any model, and throws when they break a promise of the lock. */
export class PromiseWatch {
  readonly #beliefs = new Map<string, Belief>();
  readonly #runs = new Map<number, string>();
  #greatest = 0;

  clockSteppedBack(ms: number): void {
    for (const belief of this.#beliefs.values()) belief.until -= ms;
  }

  tokenOf(attempt: string): number | undefined {
    return this.#beliefs.get(attempt)?.token;
  }

  granted({ ask, token, now, remaining }: Grant): void {
    const known = this.#beliefs.get(ask.attempt);
    // The server may have kept a hold for longer than its holder could prove, after its clock was set back.
    if (known?.token === token && !known.parked && known.atMost > now) {
      // Of several locks, the shortest lease is told.
      return this.#prolong(known, now, ask.keys.length > 1 ? Math.max(remaining, known.until - now) : remaining);
    }
    const others = [...this.#beliefs.values()].filter((belief) => belief.ask.attempt !== ask.attempt);
    const kin = others.filter((belief) => ask.owner !== '-' && belief.ask.owner === ask.owner);
    const mine = kin.filter(({ parked, atMost }) => !parked && atMost > now);
    const inside = mine.length > 0;
    // A parked hold is nobody's, except that it does not lock out who holds the lock by another hold.
    const live = others.filter(({ until }) => until > now);
    const foreign = live.filter((belief) => !inside || !kin.includes(belief));
    const conflict = foreign.find((belief) => ask.mode === 'write' || belief.ask.mode === 'write');
    if (conflict) throw new Error(`${ask.attempt} was granted beside ${conflict.ask.attempt}`);
    // Under its own write hold, an owner writes and reads as often as it likes.
    if (!mine.some((belief) => belief.ask.mode === 'write')) checkReaders(ask, live);
    // Also an attempt whose own hold has ended re-enters, beside another of its owner's.
    const reentry = inside && [...kin, known].some((belief) => belief?.token === token);
    if (token <= this.#greatest && !reentry) throw new Error(`token ${token} is not above ${this.#greatest}`);
    this.#greatest = Math.max(this.#greatest, token);
    const until = now + remaining;
    this.#beliefs.set(ask.attempt, { ask, token, since: now, until, atMost: until, parked: false });
  }

  renewed(attempt: string, now: number, remaining: number): void {
    const belief = this.#beliefs.get(attempt);
    if (!belief || belief.parked || now >= belief.atMost) throw new Error(`${attempt} was renewed after its end`);
    this.#prolong(belief, now, remaining);
  }

  released(attempt: string, now: number, minHoldMs: number): void {
    const belief = this.#beliefs.get(attempt);
    if (!belief) throw new Error(`${attempt} was released and never granted`);
    if (belief.parked) return;
    belief.parked = true;
    belief.until = Math.min(belief.since, now) + minHoldMs;
    belief.atMost = belief.until;
  }

  downgraded(attempt: string, now: number): void {
    const belief = this.#beliefs.get(attempt);
    if (!belief || belief.parked || now >= belief.atMost) throw new Error(`${attempt} was downgraded after its end`);
    belief.ask = { ...belief.ask, mode: 'read' };
  }

  /** An operator ended all holds. */
  forced(): void {
    for (const belief of this.#beliefs.values()) {
      Object.assign(belief, { parked: true, until: -Infinity, atMost: -Infinity });
    }
  }

  /** A fire is granted once, if nobody asked for a repetition. */
  claimed({ attempt, rerun }: Ask, fire: number): void {
    const first = this.#runs.get(fire);
    if (first !== undefined && first !== attempt && rerun === 0) throw new Error(`fire ${fire} was granted twice`);
    this.#runs.set(fire, attempt);
  }

  #prolong(belief: Belief, now: number, remaining: number): void {
    if (now + remaining < belief.until) throw new Error(`the lease of ${belief.ask.attempt} was shortened`);
    belief.until = now + remaining;
    belief.atMost = Math.max(belief.atMost, belief.until);
  }
}

function checkReaders(ask: Ask, live: readonly Belief[]): void {
  const readers = live.filter((belief) => belief.ask.mode === 'read').length;
  if (readers > 0 && ask.mode === 'write') throw new Error(`${ask.attempt} was upgraded`);
  if (ask.limit > 0 && readers >= ask.limit) throw new Error(`${ask.attempt} is reader ${readers + 1} of ${ask.limit}`);
}
