import { type Call, type Held } from '../workload/call.js';
import { type Change, Judging, type Rule } from './rule.js';
import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type Candidate } from '../workload/application.js';

/** The share of the lease within which a text is used for sure. */
const SAFE_SHARE = 0.9;

/**
 * A lock that changes hands (ADR 20): the handle counts as released, the hold goes on with its fencing token, and its text works once,
 * while the lease lasts. That nobody else is granted it meanwhile, is the rule of exclusion.
 */
export class Transfers extends Judging implements Rule {
  readonly #transferredAt = new Map<Held, number>();
  readonly #adoptedBy = new Map<Held, Call>();
  /** The attempts of transferred holds that no server has given to another attempt so far, and until when one may. */
  readonly #unused = new Map<string, number>();

  onTransferred(held: Held, wasHeld: boolean): void {
    const { now } = this.facts.world;
    this.#transferredAt.set(held, now);
    this.#unused.set(held.attempt, now + held.call.leaseMs * SAFE_SHARE);
    if (held.lock.held || wasHeld) this.#violate('the first handle counts as released', held.call, 'is held still');
  }

  onChange(change: Change): void {
    if (change.script.name === 'adopt') this.#onAdopt(change);
    if (change.script.name === 'release') this.#onRelease(change);
  }

  /** Only who adopts it may end it. */
  #onRelease({ script, before, lock, key, server }: Change): void {
    const attempt = script.text('attempt');
    const isKept = this.facts.world.now < (this.#unused.get(attempt) ?? -Infinity);
    if (!isKept || !before.holds.has(attempt) || lock.holds.has(attempt)) return;
    this.#violateAt('the store keeps it for its heir', `${server.name} ${key}: ${this.facts.who(attempt)} is released`);
  }

  /** The script makes the hold that of another attempt, and of no other token. */
  #onAdopt({ script, before, lock, key, server }: Change): void {
    const [attempt, from] = [script.text('attempt'), script.text('from')];
    const was = before.holds.get(attempt) ?? before.holds.get(from);
    const is = lock.holds.get(attempt);
    const where = `${server.name} ${key}: ${this.facts.show(server, key)}`;
    if (is) this.#unused.delete(from);
    if (is && lock.holds.has(from)) this.#violateAt('one hold at a time', where);
    if (is && is.token !== was?.token) this.#violateAt('the fencing token goes on', where);
  }

  onAdopted(from: Held, { call, lock }: Held): void {
    const other = this.#adoptedBy.get(from);
    this.#adoptedBy.set(from, call);
    if (other) this.#violate('a text works once', call, `${other.text} has adopted it before`);
    if (from.lock.held) this.#violate('the first handle counts as released', call, `${from.call.text} holds it still`);
    const [ours, theirs] = [lock.fencingTokens.join(), from.lock.fencingTokens.join()];
    if (ours !== theirs) this.#violate('the fencing token goes on', call, `has ${ours} after ${theirs}`);
    if (lock.mode !== from.lock.mode) this.#violate('the mode goes on', call, `${lock.mode} after ${from.lock.mode}`);
  }

  /** In calm, nothing but another use of the text, and the end of the lease, keeps it from working. */
  onNotAdopted(from: Held, call: Call): void {
    const { plan, world } = this.facts;
    const ageMs = world.now - this.#transferredAt.get(from)!;
    const isOnly = from.call.plan.handsOn!.length === 1;
    if (!plan.profile.isCalm || !isOnly || ageMs > from.call.leaseMs * SAFE_SHARE) return;
    this.#violate(
      'a text works while the lease lasts',
      call,
      `not after ${ageMs.toFixed(0)} of ${from.call.leaseMs} ms`,
    );
  }

  #violate(rule: string, call: Call, text: string): void {
    this.#violateAt(rule, `${call.text}: ${text}`);
  }

  #violateAt(rule: string, text: string): void {
    this.facts.world.violate(`transfer: ${rule}`, text);
  }
}

/** A timer may be this late: it has steps of a millisecond, and the deadline is rounded up to one. */
const LATE_MS = 3;

/** Once nothing is wrong: the longest lease of a dead leader, the pause of one that resigned, and the way of the next one to Redis. */
const ELECTED_WITHIN_MS = 20_000;

/** Promises of a leader: one at a time, which is told of its end before another one begins, and always one in the end. */
export class Leaders extends Judging implements Rule {
  readonly #candidates = new Map<string, Candidate[]>();
  /** The terms that processes were told of, and that are not over. */
  readonly #terms = new Map<Candidate, LeaderTerm>();
  readonly #lastToken = new Map<string, number>();
  /** When a lead had a leader last. */
  readonly #ledAt = new Map<string, number>();

  onCampaign(candidate: Candidate): void {
    const { key } = candidate.plan;
    this.#candidates.set(key, [...(this.#candidates.get(key) ?? []), candidate]);
    if (!this.#ledAt.has(key)) this.#ledAt.set(key, this.facts.world.now);
  }

  onElected(candidate: Candidate, term: LeaderTerm): void {
    const { key } = candidate.plan;
    if (term.fencingToken <= (this.#lastToken.get(key) ?? 0)) {
      this.#violate('each term has a greater fencing token', candidate, `${term.fencingToken}`);
    }
    this.#lastToken.set(key, term.fencingToken);
    if (this.#terms.has(candidate)) this.#violate('each term ends once', candidate, 'it is elected in its term');
    for (const other of this.#candidates.get(key)!) if (other !== candidate) this.#checkTold(other, candidate);
    this.#terms.set(candidate, term);
  }

  onDemoted(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void {
    if (this.#terms.get(candidate) !== term) this.#violate('each term ends once', candidate, `told of ${reason} again`);
    if (!term.signal.aborted)
      this.#violate('a term ends for all at once', candidate, `its signal does not tell of ${reason}`);
    this.#terms.delete(candidate);
  }

  onEvent(): void {
    const { now } = this.facts.world;
    for (const [key, candidates] of this.#candidates) {
      const leading = candidates.filter(({ app, leadership }) => !app.process.isDead && leadership.isLeader());
      if (leading.length > 0) this.#ledAt.set(key, now);
      if (leading.length > 1) this.#violate('one at a time', leading[0]!, `and so does ${leading[1]!.text}`);
    }
  }

  onTick(): void {
    const { now } = this.facts.world;
    for (const [key, candidates] of this.#candidates) {
      const campaigning = candidates.filter(({ app }) => !app.process.isDead && !app.process.isClosing);
      if (campaigning.length === 0) continue;
      const wellSince = campaigning.map(({ app }) => this.facts.recoveredAt(app.process));
      const leaderlessMs = now - Math.max(this.#ledAt.get(key)!, ...wellSince);
      if (leaderlessMs > ELECTED_WITHIN_MS)
        this.#violate('one is elected', campaigning[0]!, `none for ${leaderlessMs} ms`);
    }
  }

  #checkTold(before: Candidate, next: Candidate): void {
    if (!this.#terms.has(before)) return;
    const { process, locker } = before.app;
    // A stopped process cannot be told, nor can one that goes on at this very moment.
    if (process.isDead || process.isStopped || process.stops.at(-1)?.to === this.facts.world.now) return;
    const hold = [...locker.holds].find(({ keys }) => keys.includes(before.plan.key));
    // The clock that says so may have stood still in a sleep.
    if (hold && hold.deadline > process.clock.now() - LATE_MS) return;
    this.#violate('the end of a term is told before the next one begins', before, `and ${next.text} is elected`);
  }

  #violate(rule: string, { text }: Candidate, what: string): void {
    this.facts.world.violate(`leaders: ${rule}`, `${text}: ${what}`);
  }
}
