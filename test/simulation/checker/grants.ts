import { type SimServer } from '../server/sim-server.js';
import { type Call, type Held } from '../workload/call.js';
import { KEY_PREFIX, clientOf, waiterLeaseMs } from './facts.js';
import { liveHold } from '../../support/lua/lock-view.js';
import { type Change, Scope, type NewGrant, type Rule } from './rule.js';

/** "Waiters are served first in, first out": a fair call never passes another fair waiter that is there, and listens. */
export class Order extends Scope implements Rule {
  onGrant({ server, key, lock, before, now, live, attempt, isReentry, script }: NewGrant): void {
    const waited = before.queue.get(attempt);
    const isOwnCommand = script.name.startsWith('acquire') && script.text('attempt') === attempt;
    const isFair = waited?.fair ?? (isOwnCommand ? script.number('fair') === 1 : true);
    const isInside = live.some(([other, { mode }]) => other !== attempt && mode === 'write');
    if (this.facts.isQuorum || !isFair || isReentry || isInside) return;
    const channel = (waiter: string): string => `${KEY_PREFIX}wake:${clientOf(waiter)}`;
    for (const waiter of before.queue.values()) {
      if (waiter.attempt === attempt) return;
      const isThere = lock.queue.has(waiter.attempt) && waiter.deadline > now;
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

/** A named owner enters its own lock with its own token, and an upgrade is refused at once. */
export class Owners extends Scope implements Rule {
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

/** An operator revokes what there was when he looked, and nothing that was granted since. */
export class Operators extends Scope implements Rule {
  onChange({ script, before, lock, key, now }: Change): void {
    if (script.name !== 'forceRelease') return;
    const seen = script.number('seenToken');
    for (const [attempt, { token, deadline }] of before.holds) {
      const isNew = token > seen && deadline > now;
      if (isNew && !lock.holds.has(attempt))
        this.facts.world.violate('an operator revokes what was seen', `${key}: not ${this.facts.who(attempt)}`);
    }
  }
}

const takenBy = (live: Change['live']): number => live.reduce((sum, [, { take }]) => sum + take, 0);

/** A grant is one that its caller holds, it reaches the caller, and the first waiter gets one as soon as there is room. */
export class Grants extends Scope implements Rule {
  /** When an attempt was granted without its call having learned of it. */
  readonly #unknown = new Map<string, number>();

  onHeld({ hold, lock, call }: Held): void {
    if (!hold || lock.held || hold.lost?.reason === 'revoked') return;
    this.facts.world.violate('a granted lock is held', `${call.text} was granted a lease that is over`);
  }

  onGrant({ attempt, server, key }: NewGrant): void {
    if (!this.facts.isQuorum && !this.facts.isStale(server, key)) this.#unknown.set(attempt, this.facts.world.now);
  }

  onTick(): void {
    for (const [attempt, since] of this.#unknown) {
      const call = this.facts.callOf.get(attempt);
      // It may wait in its process for the next of several keys.
      const isAsked = call?.attempt === attempt && !call.granted.includes(attempt);
      if (!call?.isPending || !isAsked || !this.#isLive(call)) this.#unknown.delete(attempt);
      else this.#checkReached(attempt, call, since);
    }
  }

  #checkReached(attempt: string, call: Call, since: number): void {
    const { world, plan, confirmMs } = this.facts;
    const { delayMax, resendMax } = plan.profile.network;
    const isQuick = plan.profile.isCalm && plan.profile.messages.lost === 0;
    const pollMs = (waiterLeaseMs(call.leaseMs) / 3) * 1.02;
    // Answers that take longer than a command may are useless: then a later poll brings the grant.
    const boundMs = confirmMs + (isQuick ? 8 * delayMax + 60 : pollMs + 8 * (delayMax + resendMax) + 60);
    const waitedMs = world.now - Math.max(since, this.facts.recoveredAt(call.process));
    const isHeld = call.plan.keys.some((key) => liveHold(this.facts.lockThatCounts(key), attempt));
    if (!isHeld) return void this.#unknown.delete(attempt);
    if (waitedMs <= boundMs) return;
    world.violate('6: a grant reaches its call', `${call.text} has not learned of it for ${waitedMs.toFixed(0)} ms`);
  }

  #isLive({ process }: Call): boolean {
    return !process.isDead && !process.isStopped && !process.isClosing;
  }

  /** After each script that made room, the lock has no room for the first waiter who would be granted it without asking again. */
  onChange({ server, script, before, lock, key, live, now }: Change): void {
    if (this.facts.isQuorum || script.name === 'inspect') return;
    // A script that does not make room, such as a late acquire, serves no waiter.
    const isRoomier =
      [...before.holds].some(([attempt, { mode }]) => lock.holds.get(attempt)?.mode !== mode) ||
      [...before.queue.keys()].some((attempt) => !lock.queue.has(attempt));
    if (!isRoomier) return;
    const waiters = [...lock.queue.values()];
    // A dead waiter is found by the next one who asks.
    if ([...before.queue.values(), ...waiters].some(({ deadline }) => deadline <= now)) return;
    const first = waiters.find(({ isPassedOver }) => !isPassedOver);
    if (!first?.fair || !this.facts.isSimple(first) || !this.#listens(server, first.attempt)) return;
    // Unfair waiters race: behind a dead one, another one is woken, which asks for all.
    const isRace = waiters.some(({ fair, attempt }) => !fair && this.#listens(server, attempt));
    if (isRace) return;
    const isAdmitted =
      live.length === 0 ||
      (first.mode === 'read' &&
        live.every(([, { mode }]) => mode === 'read') &&
        (first.permits === 0 || takenBy(live) + first.take <= first.permits));
    if (!isAdmitted) return;
    const text = `${key}: ${this.facts.who(first.attempt)} still waits: ${this.facts.show(server, key)}`;
    this.facts.world.violate('6: the first waiter is served', text);
  }

  #listens(server: SimServer, attempt: string): boolean {
    return server.subscriptions.has(`${KEY_PREFIX}wake:${clientOf(attempt)}`);
  }
}
