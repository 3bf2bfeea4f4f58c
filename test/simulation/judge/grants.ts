import { clientOf } from '../../../lib/memory/hand-over.js';
import { type SimServer } from '../server/sim-server.js';
import { type Call, type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type NewGrant, type Rule } from './rule.js';

/** As in lib/core/timing.ts. */
const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

const takenBy = (live: Change['live']): number => live.reduce((sum, [, { take }]) => sum + take, 0);

/** A grant is one that its caller holds, it reaches the caller, and the first waiter gets one as soon as there is room. */
export class Grants implements Rule {
  /** When an attempt was granted that its call does not know of yet. */
  readonly #unknown = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

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
    // Answers that take longer than a command may are of no use: then a later poll tells.
    const boundMs = confirmMs + (isQuick ? 8 * delayMax + 60 : pollMs + 8 * (delayMax + resendMax) + 60);
    const waitedMs = world.now - Math.max(since, this.facts.recoveredAt(call.process));
    const isHeld = call.plan.keys.some((key) => this.facts.lockThatCounts(key).liveHold(attempt));
    if (!isHeld) return void this.#unknown.delete(attempt);
    if (waitedMs <= boundMs) return;
    world.violate('6: a grant reaches its call', `${call.text} does not know of it for ${waitedMs.toFixed(0)} ms`);
  }

  #isLive({ process }: Call): boolean {
    return !process.isDead && !process.isStopped && !process.isClosing;
  }

  /** After each script that made room, the lock has no room for the first waiter who would be granted it without asking again. */
  onChange({ server, script, before, lock, key, live, now }: Change): void {
    // A renewal drops dead waiters, and serves nobody: who is behind them asks again after the poll.
    if (this.facts.isQuorum || script.name === 'inspect' || script.name === 'renew') return;
    // Nor does a script that makes no room, such as a late acquire, after that.
    const places = new Set(lock.queue.waiters.map(({ attempt }) => attempt));
    const isRoomier =
      script.name === 'downgrade' ||
      [...before.holds.keys()].some((attempt) => !lock.holds.has(attempt)) ||
      before.queue.some(({ attempt }) => !places.has(attempt));
    // A script that has looked at 256 places stops, and is sent again.
    if (!isRoomier || lock.unserved) return;
    // A dead waiter is found by the next one who asks.
    if ([...before.queue, ...lock.queue.waiters].some(({ deadline }) => deadline <= now)) return;
    const first = lock.queue.waiters.find(({ place }) => place >= lock.queue.head);
    const isSimple = first?.fair && first.keys.length === 1 && first.claim === undefined;
    if (!isSimple || !this.#listens(server, first.attempt)) return;
    // Unfair waiters race: behind a dead one, another one is woken, which asks for all.
    const isRace = lock.queue.waiters.some(({ fair, attempt }) => !fair && this.#listens(server, attempt));
    if (isRace) return;
    const isAdmitted =
      live.length === 0 ||
      (first.mode === 'read' &&
        live.every(([, { mode }]) => mode === 'read') &&
        (first.permits === 0 || takenBy(live) + (first.take ?? 1) <= first.permits));
    if (!isAdmitted) return;
    const text = `${key}: ${this.facts.who(first.attempt)} still waits: ${this.facts.show(server, key)}`;
    this.facts.world.violate('6: the first waiter is served', text);
  }

  #listens(server: SimServer, attempt: string): boolean {
    return server.subscriptions.has(`${KEY_PREFIX}wake:${clientOf(attempt)}`);
  }
}
