import { type Request, clientOf } from './commands.js';

/**
 * What one client was told about its hold: the only thing that exclusion can be judged by. Proven `until` then, which moves
 * back with the clock, since a lease is a length of time; `atMost` is the latest end ever told, as a time of the server.
 */
interface Belief {
  request: Request;
  /** The last one is that of the hold; a quorum replaced those before it. */
  readonly tokens: number[];
  readonly since: number;
  until: number;
  atMost: number;
  parked: boolean;
}

/**
 * What a lock may answer, whatever is in Redis: judged by the replies and the messages alone, as its clients see them.
 * Throws when a promise is broken: exclusion, order, no lost wake-up, leases that only grow, tokens that only rise.
 */
export class ReferenceModel {
  readonly #beliefs = new Map<string, Belief>();
  /** Who waits, in order, and until when the place is certain; later it may be the same, or a new one at the tail. */
  readonly #waiting = new Map<string, { request: Request; isSure: boolean; until: number }>();
  /** The attempts before it may be forgotten by now. */
  #releasedLast: string | undefined;
  #greatest = 0;
  #hasSteppedBack = false;
  /** Whether Redis knows no token: the next one comes from its clock alone. */
  #isForgotten = false;
  /** How many permits an operator has set. */
  #permits: number | undefined;

  constructor(private readonly hears: (client: string) => boolean) {}

  clockSteppedBack(ms: number): void {
    this.#hasSteppedBack = true;
    if (this.#isForgotten) this.#greatest = 0;
    for (const one of [...this.#beliefs.values(), ...this.#waiting.values()]) one.until -= ms;
  }

  forgetOrder(client: string): void {
    for (const attempt of this.#waiting.keys()) if (clientOf(attempt) === client) this.#waiting.delete(attempt);
  }

  tokenOf = (attempt: string): number | undefined => this.#beliefs.get(attempt)?.tokens.at(-1);

  /** An acquire was answered, and not with a grant. */
  notGranted(request: Request, outcome: string, now: number): void {
    const { attempt, waiterLeaseMs, keys } = request;
    const belief = this.#beliefs.get(attempt);
    const isHeld = belief && !belief.parked && belief.until > now;
    if (isHeld && keys.length === 1) throw new Error(`${attempt} was refused what it holds`);
    const known = this.#waiting.get(attempt);
    const isLapsed = known !== undefined && known.until <= now;
    const waits = outcome === 'busy' && this.#isJudged(request);
    // A place may have outlived that by as much as the clock was set back.
    if (isLapsed && this.#hasSteppedBack) {
      const until = waits && waiterLeaseMs > 0 ? now + waiterLeaseMs : known.until;
      this.#waiting.set(attempt, { request, isSure: false, until });
      return;
    }
    if (!waits || isLapsed) this.#waiting.delete(attempt);
    const isSure = !isLapsed && known?.isSure !== false;
    if (waits && waiterLeaseMs > 0) this.#waiting.set(attempt, { request, isSure, until: now + waiterLeaseMs });
  }

  granted({
    request,
    token,
    now,
    remaining,
  }: {
    request: Request;
    token: number;
    now: number;
    remaining: number;
  }): void {
    if (!Number.isSafeInteger(token)) throw new Error(`${request.attempt} was granted with the token ${token}`);
    const known = this.#beliefs.get(request.attempt);
    if (known?.parked && this.#releasedLast === request.attempt) throw new Error(`${request.attempt} was granted late`);
    // The server may have kept a hold for longer than its holder could prove, after its clock was set back.
    if (known?.tokens.at(-1) === token && !known.parked && known.atMost > now) {
      // Of several locks, the shortest lease is told.
      return this.#prolong(known, now, request.keys.length > 1 ? Math.max(remaining, known.until - now) : remaining);
    }
    const others = [...this.#beliefs.values()].filter((belief) => belief.request.attempt !== request.attempt);
    const kin = others.filter((belief) => request.owner !== '-' && belief.request.owner === request.owner);
    const mine = kin.filter(({ parked, atMost }) => !parked && atMost > now);
    const inside = mine.length > 0;
    // A parked hold is nobody's, except that it does not lock out who holds the lock by another hold.
    const live = others.filter(({ until }) => until > now);
    const foreign = live.filter((belief) => !inside || !kin.includes(belief));
    const conflict = foreign.find((belief) => request.mode === 'write' || belief.request.mode === 'write');
    if (conflict) throw new Error(`${request.attempt} was granted beside ${conflict.request.attempt}`);
    // Under its own write hold, an owner writes and reads as often as it likes.
    const writes = mine.some((belief) => belief.request.mode === 'write');
    const reading = writes ? [] : live.filter((belief) => belief.request.mode === 'read');
    const readers = reading.length;
    const taken = reading.reduce((sum, { request: { take } }) => sum + take, 0);
    if (readers > 0 && request.mode === 'write') throw new Error(`${request.attempt} was upgraded`);
    const permits = this.#permits ?? (request.permits || Infinity);
    const isLimited = request.mode === 'read' && !writes;
    if (isLimited && taken + request.take > permits) throw new Error(`${request.attempt} takes too many permits`);
    // Also an attempt whose own hold has ended re-enters, beside another of its owner's.
    const reentry = inside && [...kin, known].some((belief) => belief?.tokens.includes(token));
    if (token <= this.#greatest && !reentry) throw new Error(`token ${token} is not above ${this.#greatest}`);
    if (request.fair && !inside && this.#isJudged(request)) this.#checkOrder(request.attempt, now);
    this.#waiting.delete(request.attempt);
    this.#isForgotten = false;
    this.#greatest = Math.max(this.#greatest, token);
    const until = now + remaining;
    this.#beliefs.set(request.attempt, { request, tokens: [token], since: now, until, atMost: until, parked: false });
  }

  renewed(attempt: string, now: number, remaining: number): void {
    this.#prolong(this.#held(attempt, now), now, remaining);
  }

  /** The hold of one attempt is that of another from now on. */
  adopted(request: Request, from: string, now: number, remaining: number): void {
    const { attempt } = request;
    const mine = this.#beliefs.get(attempt);
    if (mine && !mine.parked && mine.atMost > now) return this.#prolong(mine, now, remaining);
    const given = this.#held(from, now);
    const { owner, mode, take } = given.request;
    const belief = { ...given, request: { ...request, owner, mode, take }, tokens: [...given.tokens] };
    this.#beliefs.set(attempt, belief);
    Object.assign(given, { parked: true, until: -Infinity, atMost: -Infinity });
    this.#releasedLast = from;
    this.#prolong(belief, now, remaining);
  }

  downgraded(attempt: string, now: number): void {
    const belief = this.#held(attempt, now);
    belief.request = { ...belief.request, mode: 'read' };
  }

  /** A quorum has replaced the token of a hold. */
  written(attempt: string, token: number, now: number): void {
    this.#held(attempt, now).tokens.push(token);
    this.#greatest = Math.max(this.#greatest, token);
  }

  /** An operator has set how many permits there are; undefined: the requests say it again. */
  permitsSet(permits: number | undefined): void {
    this.#permits = permits;
  }

  /** Nothing is left in Redis. By then, each command that is still under way is too old. */
  expired(now: number): void {
    this.#releasedLast = undefined;
    this.#permits = undefined;
    this.#isForgotten = true;
    if (this.#hasSteppedBack && now * 1_000 <= this.#greatest) this.#greatest = 0;
  }

  /** A renewal or a downgrade was told that there is no such hold. */
  lost(attempt: string, token: string, now: number): void {
    const belief = this.#beliefs.get(attempt);
    if (!belief || belief.parked || belief.until <= now || `${belief.tokens.at(-1)}` !== token) return;
    throw new Error(`${attempt} was told a loss within its lease`);
  }

  /** Whatever this attempt had is over. */
  released(attempt: string, outcome: string, now: number, holdAtLeastMs: number): void {
    this.#waiting.delete(attempt);
    this.#releasedLast = attempt;
    const belief = this.#beliefs.get(attempt);
    if (outcome !== 'released' || belief?.parked) return;
    if (!belief) throw new Error(`${attempt} was released and never granted`);
    const until = Math.min(belief.since, now) + holdAtLeastMs;
    Object.assign(belief, { parked: true, until, atMost: until });
  }

  /** An operator ended all holds that were granted by `seenToken`. */
  revoked(seenToken: number): void {
    this.#releasedLast = undefined;
    const over = { parked: true, until: -Infinity, atMost: -Infinity };
    for (const belief of this.#beliefs.values()) {
      const granted = belief.parked ? Math.min(belief.since * 1_000, this.#greatest) : belief.tokens.at(-1)!;
      if (granted <= seenToken) Object.assign(belief, over);
    }
  }

  /** A hold ended in this command: when the lock is free now, somebody of those who wait was told. */
  checkHandedOver(messages: number, now: number): void {
    if (messages > 0 || [...this.#beliefs.values()].some(({ atMost }) => atMost > now)) return;
    const waiter = [...this.#waiting.values()].find(({ until }) => until > now);
    if (waiter) throw new Error(`nobody told ${waiter.request.attempt} of the free lock`);
  }

  /** First in, first out among those who are fair, whether they read or write. */
  #checkOrder(attempt: string, now: number): void {
    if (this.#waiting.get(attempt)?.isSure === false) return;
    for (const [earlier, { request, isSure, until }] of this.#waiting) {
      if (earlier === attempt) return;
      // An unsure one may have gone to the tail.
      if (request.fair && isSure && until > now) throw new Error(`${attempt} overtook ${earlier}`);
    }
  }

  /** Of several locks, it is not told for which an attempt waits. */
  #isJudged = ({ keys, attempt }: Request): boolean => keys.length === 1 && this.hears(clientOf(attempt));

  #held(attempt: string, now: number): Belief {
    const belief = this.#beliefs.get(attempt);
    if (!belief || belief.parked || now >= belief.atMost) throw new Error(`${attempt} was kept after its end`);
    return belief;
  }

  #prolong(belief: Belief, now: number, remaining: number): void {
    if (now + remaining < belief.until) throw new Error(`the lease of ${belief.request.attempt} was shortened`);
    belief.until = now + remaining;
    belief.atMost = Math.max(belief.atMost, belief.until);
  }
}
