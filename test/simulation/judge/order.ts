import { clientOf } from '../../../lib/memory/hand-over.js';
import { KEY_PREFIX, type Facts } from './facts.js';
import { type NewGrant, type Rule } from './rule.js';

/** "Waiters are served first in, first out": nobody fair passes another fair waiter who is there, and listens. */
export class Order implements Rule {
  constructor(private readonly facts: Facts) {}

  onGrant({ server, key, lock, before, now, live, attempt, isReentry, script }: NewGrant): void {
    const waited = before.queue.find((waiter) => waiter.attempt === attempt);
    const isOwnCommand = script.name.startsWith('acquire') && script.text('attempt') === attempt;
    const isFair = waited?.fair ?? (isOwnCommand ? script.number('fair') === 1 : true);
    const isInside = live.some(([other, { mode }]) => other !== attempt && mode === 'write');
    if (this.facts.isQuorum || !isFair || isReentry || isInside) return;
    const channel = (waiter: string): string => `${KEY_PREFIX}wake:${clientOf(waiter)}`;
    for (const waiter of before.queue) {
      if (waiter.attempt === attempt) return;
      const isThere = lock.queue.of(waiter.attempt) !== undefined && waiter.deadline > now;
      if (!waiter.fair || waiter.isPassedOver || !isThere || !server.subscriptions.has(channel(waiter.attempt)))
        continue;
      const [first, second] = [this.facts.who(waiter.attempt), this.facts.who(attempt)];
      return this.facts.world.violate(
        'first in, first out',
        `${key}: ${second} passes ${first}: ${this.facts.show(server, key)}`,
      );
    }
  }
}
