import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type Candidate } from '../workload/campaigner.js';
import { Judging, type Rule } from './rule.js';

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
