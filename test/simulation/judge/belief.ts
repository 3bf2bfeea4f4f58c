import { type SimServer } from '../server/sim-server.js';
import { type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { KEY_PREFIX } from './facts.js';
import { type NewGrant, type Rule } from './rule.js';

/** A timer may be this late: it has steps of a millisecond, and the deadline is rounded up to one. */
const LATE_MS = 3;

/** Promises 1 and 4: who believes to hold does hold, and who no longer holds is told before the next one does. */
export class Belief implements Rule {
  constructor(private readonly facts: Facts) {}

  onEvent(): void {
    for (const held of this.facts.held) {
      if (held.call.process.isDead || held.doneAt < Infinity) this.facts.held.delete(held);
      else if (held.releasedAt === Infinity && held.hold && held.lock.held) this.#checkBacked(held);
    }
  }

  #checkBacked(held: Held): void {
    const { facts } = this;
    for (const [i, key] of held.hold!.keys.entries()) {
      const token = held.hold!.refs[i]!.fencingToken;
      const voters = facts.votersFor(KEY_PREFIX + key);
      const backing = voters.filter((server) => this.#backs(server, held, key, token));
      if (backing.length >= facts.majority) continue;
      const left = `${held.lock.remainingMs.toFixed(1)} ms`;
      const where = facts.network.servers.map((server) => facts.show(server, KEY_PREFIX + key)).join('; ');
      const text = `${held.call.text} believes to hold ${key} for ${left}; ${where}`;
      facts.world.violate('1: a belief is backed', text);
      held.releasedAt = facts.world.now;
      return;
    }
  }

  #backs(server: SimServer, held: Held, key: string, token: number): boolean {
    if (this.facts.isExempt(held, server)) return true;
    if (this.facts.isQuorum && this.facts.revokedAt > held.askedAt) return true;
    const hold = this.facts.lockOf(server, key).holds.get(held.attempt);
    if (!hold || hold.deadline <= server.nowMs) return false;
    return this.facts.isQuorum || hold.token === token || this.facts.failovers.wasElsewhere(held.attempt);
  }

  /** A grant of a single server; what a quorum grants is known when its caller gets it. */
  onGrant({ server, key, attempt, hold }: NewGrant): void {
    if (this.facts.isQuorum || this.facts.isStale(server, key)) return;
    for (const held of this.facts.held) {
      if (held.attempt === attempt || !held.hold || !held.hold.keys.includes(key.slice(KEY_PREFIX.length))) continue;
      if (!this.#conflicts(held, hold) || this.facts.isExempt(held, server)) continue;
      this.#checkTold(held, `${key} is granted to ${this.facts.who(attempt)}`);
    }
  }

  onHeld(next: Held): void {
    if (!this.facts.isQuorum || !next.hold || !next.lock.held) return;
    for (const held of this.facts.held) {
      if (held === next || !held.hold || held.attempt === next.attempt) continue;
      const shared = next.hold.keys.find((key) => held.hold!.keys.includes(key));
      if (shared === undefined || !this.#conflicts(held, { mode: next.lock.mode, owner: next.owner })) continue;
      if (this.facts.network.servers.some((server) => this.facts.isExempt(held, server))) continue;
      if (this.facts.revokedAt > held.askedAt) continue;
      this.#checkTold(held, `${shared} is granted to ${next.call.text}`);
    }
  }

  #conflicts(held: Held, next: { readonly mode: string; readonly owner: string | undefined }): boolean {
    if (held.call.process.isDead || held.releasedAt < Infinity) return false;
    if (held.lock.mode === 'read' && next.mode === 'read') return false;
    return held.owner === undefined || encoded(held.owner) !== encoded(next.owner);
  }

  #checkTold(held: Held, what: string): void {
    const { world } = this.facts;
    const { process } = held.call;
    if (held.lock.held) {
      const left = `${held.lock.remainingMs.toFixed(1)} ms`;
      return world.violate('1: two do not believe', `${what}, and ${held.call.text} believes for ${left}`);
    }
    // A stopped process cannot be told, nor can one that goes on at this very moment.
    const isExcused = process.isStopped || process.stops.at(-1)?.to === world.now;
    const isDue = held.hold!.deadline <= process.clock.now() - LATE_MS;
    if (held.lost === null && isDue && !isExcused) {
      world.violate('4: a loss is told before the next grant', `${what}, and ${held.call.text} was not told`);
    }
  }
}

const encoded = (owner: string | undefined): string | undefined => (owner === '-' || owner === '%2D' ? '%2D' : owner);
