import { type Facts } from './facts.js';
import { type Change, type NewGrant, type Rule } from './rule.js';

/** A named owner enters its own lock with its own token, and an upgrade is refused at once. */
export class Owners implements Rule {
  constructor(private readonly facts: Facts) {}

  onChange({ script, reply, before, live, key, server }: Change): void {
    if (this.facts.isQuorum || script.name !== 'acquire' || reply[0] !== 'busy') return;
    const owner = script.text('owner');
    const own = live.filter(([attempt, hold]) => hold.token > 0 && hold.owner === owner && before.holds.has(attempt));
    const isWaiting =
      own.some(([, { mode }]) => mode === 'write') || (own.length > 0 && script.text('mode') === 'write');
    if (owner === '-' || !isWaiting) return;
    const text = `${key}: ${this.facts.who(script.text('attempt'))}: ${this.facts.show(server, key)}`;
    this.facts.world.violate('an owner does not wait for itself', text);
  }

  onGrant({ attempt, hold, live, key, server }: NewGrant): void {
    const { owner, token } = hold;
    const writes = live.filter(([other, one]) => other !== attempt && one.mode === 'write' && one.token > 0);
    if (this.facts.isQuorum || owner === undefined || writes.length === 0) return;
    if (writes.every(([, one]) => one.owner !== owner || one.entry === token || one.token === token)) return;
    const text = `${key}: ${this.facts.who(attempt)} has ${token}: ${this.facts.show(server, key)}`;
    this.facts.world.violate('an owner enters its lock with its token', text);
  }
}
