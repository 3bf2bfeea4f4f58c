import { type Call, type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** As in lib/core/timing.ts. */
const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/**
 * Votes are split for so long at most: callers try again after up to 60 ms, eight times that after many splits
 * (lib/redis/timing.ts, `splitRetryMs`), so within this time there are a dozen rounds, one of which has a single first caller.
 */
const SPLITS_MS = 6_000;

/**
 * Promise 6, where no queue tells it: a call that waits for several keys or for a fire has its turn when it is the first in
 * all its queues and all are free; and in a quorum, one of those that wait for a free lock is granted it.
 */
export class Turns implements Rule {
  readonly #since = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

  /** A hold may come and go between two ticks. */
  onChange({ live, lock }: Change): void {
    if (this.facts.isQuorum || live.length === 0) return;
    for (const { attempt } of lock.queue.waiters) this.#since.delete(attempt);
  }

  onHeld({ keys }: Held): void {
    if (this.facts.isQuorum) for (const key of keys) this.#since.delete(key);
  }

  onTick(): void {
    const { isQuorum, pending, plan } = this.facts;
    if (isQuorum) for (const key of plan.keys) this.#checkQuorum(key);
    else for (const call of pending) this.#checkCall(call);
  }

  #checkCall(call: Call): void {
    const { attempt = '' } = call;
    const waitedMs = this.#waited(attempt, this.#isLive(call) && this.#hasTurn(call, attempt), call);
    const { delayMax, resendMax } = this.facts.plan.profile.network;
    const boundMs = (waiterLeaseMs(call.leaseMs) / 3) * 1.02 + 4 * (delayMax + resendMax) + 30;
    if (waitedMs <= boundMs) return;
    const text = `${call.text} is the first for ${waitedMs.toFixed(0)} ms, and ${call.plan.keys.join()} free`;
    this.facts.world.violate('6: a free lock is granted within the poll', text);
  }

  #hasTurn({ plan }: Call, attempt: string): boolean {
    return plan.keys.every((key) => {
      const server = this.facts.authorityOf(KEY_PREFIX + key);
      const isLive = ({ deadline }: { readonly deadline: number }): boolean => deadline > server.nowMs;
      const { holds, queue } = this.facts.lockOf(server, key);
      return ![...holds.values()].some(isLive) && queue.waiters.find(isLive)?.attempt === attempt;
    });
  }

  #checkQuorum(key: string): void {
    const { facts } = this;
    const waiting = [...facts.pending].filter(
      (call) => this.#isLive(call) && call.waitMs > 0 && this.#wants(call, key),
    );
    const [longest] = waiting.sort((a, b) => a.startedAt - b.startedAt);
    const waitedMs = this.#waited(key, longest !== undefined && this.#isFree(key), longest);
    if (waitedMs <= 2_000 * 1.02 + SPLITS_MS + 4 * facts.plan.profile.network.resendMax) return;
    const text = `${key} is free for ${waitedMs.toFixed(0)} ms, and ${longest!.text} waits`;
    facts.world.violate('6: a free lock of a quorum is granted', text);
  }

  /** Whether no more than a minority of its nodes keeps a hold of anybody but those that ask. */
  #isFree(key: string): boolean {
    const { network, callOf, majority } = this.facts;
    const isAsking = (attempt: string): boolean => callOf.get(attempt)?.isPending ?? false;
    const free = network.servers.filter(
      (server) =>
        ![...this.facts.lockOf(server, key).holds].some(([id, hold]) => hold.deadline > server.nowMs && !isAsking(id)),
    );
    return free.length >= majority;
  }

  #wants({ plan, outer }: Call, key: string): boolean {
    return !outer && plan.keys.length === 1 && plan.keys[0] === key;
  }

  /** For how long something has been so, while all was well. */
  #waited(id: string, isSo: boolean, call: Call | undefined): number {
    if (!isSo) {
      this.#since.delete(id);
      return 0;
    }
    const { world } = this.facts;
    const since = this.#since.get(id) ?? world.now;
    this.#since.set(id, since);
    return world.now - Math.max(since, call!.startedAt, this.facts.recoveredAt(call!.process));
  }

  #isLive({ process, isPending }: Call): boolean {
    return isPending && !process.isDead && !process.isStopped && !process.isClosing;
  }
}
