import { type SimServer } from '../server/sim-server.js';
import { type Call } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** As in lib/core/timing.ts: how long a place is kept without a word; a waiter polls after a third of that. */
const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

interface Freed {
  readonly at: number;
  readonly first: string;
}

/**
 * Promise 6: a free lock is granted to a live waiter within the fallback poll, even if every message is lost; and while
 * nothing fails, by one message. A queue in which a call waits for several keys, or for a fire, is left out: it may be held back.
 */
export class Waiting implements Rule {
  readonly #freeSince = new Map<string, number>();
  readonly #freed = new Map<string, Freed>();
  readonly #keys = new Set<string>();

  constructor(private readonly facts: Facts) {}

  onChange({ key, script, live, lock, now, before }: Change): void {
    this.#keys.add(key);
    // A hold may come and go between two ticks.
    if (live.length > 0) this.#freeSince.delete(key);
    const { isCalm, messages } = this.facts.plan.profile;
    if (!isCalm || messages.lost > 0 || this.facts.isQuorum) return;
    if (live.length > 0) return void this.#freed.delete(key);
    const wasHeld = [...before.holds.values()].some(({ deadline }) => deadline > now);
    const [first] = lock.queue.waiters.filter(({ deadline }) => deadline > now);
    if (script.name === 'release' && wasHeld && first)
      this.#freed.set(key, { at: this.facts.world.now, first: first.attempt });
  }

  onTick(): void {
    if (this.facts.isQuorum) return;
    for (const key of this.#keys) this.#check(this.facts.authorityOf(key), key);
  }

  #check(server: SimServer, key: string): void {
    const lock = server.lock(key);
    const now = server.nowMs;
    const waiting = lock.queue.waiters.filter(({ deadline }) => deadline > now);
    const isHeld = [...lock.holds.values()].some(({ deadline }) => deadline > now);
    const isSimple = waiting.every(({ keys, claim }) => keys.length === 1 && claim === undefined);
    this.#checkHandOver(server, key, isHeld || !isSimple ? undefined : waiting[0]?.attempt);
    const calls = waiting.map(({ attempt }) => this.facts.callOf.get(attempt));
    if (isHeld || !isSimple || !isWell(server) || !calls.every((call) => call && this.#isLive(call))) {
      this.#freeSince.delete(key);
      return;
    }
    const since = this.#freeSince.get(key) ?? this.facts.world.now;
    this.#freeSince.set(key, since);
    const leases = waiting.map((waiter) => waiter.waiterLeaseMs);
    for (const call of this.facts.pending) {
      if (this.#isLive(call) && this.#waitsFor(call, key)) this.#checkPoll(server, key, call, since, leases);
    }
  }

  #checkHandOver(server: SimServer, key: string, first: string | undefined): void {
    const { world, plan } = this.facts;
    const freed = this.#freed.get(key);
    // A message, a command and its reply; with some room for each.
    if (!freed || world.now - freed.at <= 8 * plan.profile.network.delayMax + 60) return;
    this.#freed.delete(key);
    const call = this.facts.callOf.get(freed.first);
    if (freed.first !== first || !call?.isPending || call.attempt !== first) return;
    const text = `${key} is free for ${(world.now - freed.at).toFixed(0)} ms: ${this.facts.show(server, key)}`;
    world.violate('6: a release hands the lock over by one message', text);
  }

  #checkPoll(server: SimServer, key: string, call: Call, since: number, leases: readonly number[]): void {
    const { world, plan } = this.facts;
    const { delayMax, resendMax } = plan.profile.network;
    const longest = Math.max(waiterLeaseMs(call.leaseMs), ...leases);
    const boundMs = (longest / 3) * 1.02 + 4 * (delayMax + resendMax) + 30;
    const waitedMs = world.now - Math.max(since, call.startedAt, this.facts.recoveredAt(call.process));
    if (waitedMs <= boundMs) return;
    const text = `${key} is free for ${waitedMs.toFixed(0)} ms, and ${call.text} waits: ${this.facts.show(server, key)}`;
    world.violate('6: a free lock is granted within the poll', text);
  }

  #waitsFor({ plan, outer, waitMs }: Call, key: string): boolean {
    return !outer && waitMs > 0 && plan.keys.length === 1 && KEY_PREFIX + plan.keys[0] === key;
  }

  #isLive(call: Call): boolean {
    const { process } = call;
    if (process.isDead || process.isStopped || process.isClosing || !call.isPending) return false;
    return this.facts.world.now >= this.facts.recoveredAt(process);
  }
}

const isWell = (server: SimServer): boolean =>
  server.reach === 'accepts' && !server.isLoading && server.refusal === null && server.stalledUntil <= server.world.now;
