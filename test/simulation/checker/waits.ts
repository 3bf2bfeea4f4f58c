import { getEventListeners } from 'node:events';
import { type SimServer } from '../server/sim-server.js';
import { type Call, type Held, type Outcome } from '../workload/call.js';
import { KEY_PREFIX, waiterLeaseMs } from './facts.js';
import { lockOn } from '../../support/lua/lock-view.js';
import { type Change, Scope, type Rule } from './rule.js';

interface Freed {
  readonly at: number;
  readonly first: string;
}

/**
 * Promise 6: a free lock is granted to a live waiter within the fallback poll, even if every message is lost; and while
 * nothing fails, by one message. A queue in which a call waits for several keys, or for a fire, is left out: it may be held back.
 */
export class Waiting extends Scope implements Rule {
  readonly #freeSince = new Map<string, number>();
  readonly #freed = new Map<string, Freed>();
  readonly #keys = new Set<string>();

  onChange({ key, script, live, lock, now, before }: Change): void {
    this.#keys.add(key);
    // A hold may come and go between two ticks.
    if (live.length > 0) this.#freeSince.delete(key);
    const { isCalm, messages } = this.facts.plan.profile;
    if (!isCalm || messages.lost > 0 || this.facts.isQuorum) return;
    if (live.length > 0) return void this.#freed.delete(key);
    const wasHeld = [...before.holds.values()].some(({ deadline }) => deadline > now);
    const [first] = [...lock.queue.values()].filter(({ deadline }) => deadline > now);
    if (script.name === 'release' && wasHeld && first)
      this.#freed.set(key, { at: this.facts.world.now, first: first.attempt });
  }

  onTick(): void {
    if (this.facts.isQuorum) return;
    for (const key of this.#keys) this.#check(this.facts.authorityOf(key), key);
  }

  #check(server: SimServer, key: string): void {
    const lock = lockOn(server, key);
    const now = server.nowMs;
    const waiting = [...lock.queue.values()].filter(({ deadline }) => deadline > now);
    const isHeld = [...lock.holds.values()].some(({ deadline }) => deadline > now);
    const isSimple = waiting.every((waiter) => this.facts.isSimple(waiter));
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
    const { world } = this.facts;
    const boundMs = this.facts.pollMs(Math.max(waiterLeaseMs(call.leaseMs), ...leases));
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

/**
 * Votes are split for so long at most: callers try again after up to 60 ms, eight times that after many splits
 * (lib/redis/timing.ts, `splitRetryMs`), so within this time there are a dozen rounds, one of which has a single first caller.
 */
const SPLITS_MS = 6_000;

/**
 * Promise 6 where a queue does not define it: a call that waits for several keys or for a fire has its turn when it is first in
 * all its queues and all are free; and in a quorum, one of those that wait for a free lock is granted it.
 */
export class Turns extends Scope implements Rule {
  readonly #since = new Map<string, number>();

  /** A hold may come and go between two ticks. */
  onChange({ live, lock }: Change): void {
    if (this.facts.isQuorum || live.length === 0) return;
    for (const attempt of lock.queue.keys()) this.#since.delete(attempt);
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
    if (waitedMs <= this.facts.pollMs(waiterLeaseMs(call.leaseMs))) return;
    const text = `${call.text} is the first for ${waitedMs.toFixed(0)} ms, and ${call.plan.keys.join()} free`;
    this.facts.world.violate('6: a free lock is granted within the poll', text);
  }

  #hasTurn({ plan }: Call, attempt: string): boolean {
    return plan.keys.every((key) => {
      const server = this.facts.authorityOf(KEY_PREFIX + key);
      const isLive = ({ deadline }: { readonly deadline: number }): boolean => deadline > server.nowMs;
      const { holds, queue } = this.facts.lockOf(server, key);
      return ![...holds.values()].some(isLive) && [...queue.values()].find(isLive)?.attempt === attempt;
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

  /** Whether no more than a minority of its nodes keeps a hold of a call other than those that ask. */
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

/** A late deadline already waits for an answer that may have arrived (`READ_MS`); and timers are also late. */
const BUSY_LATE_MS = 60;

/** Once a call has heard that its lock is busy, it waits for `waitMs` and no longer. */
export class WaitLimits extends Scope implements Rule {
  /** When the first reply that a lock is busy was sent to a call. */
  readonly #busyAt = new Map<Call, number>();

  onChange({ script, reply }: Change): void {
    if (!this.facts.plan.profile.isCalm || this.facts.isQuorum || reply[0] !== 'busy') return;
    const call = this.facts.callOf.get(script.text('attempt'));
    if (call?.isPending && !this.#busyAt.has(call)) this.#busyAt.set(call, this.facts.world.now);
  }

  onSettled(call: Call, outcome: Outcome): void {
    this.#check(call, outcome);
    this.#busyAt.delete(call);
  }

  onTick(): void {
    for (const call of this.#busyAt.keys()) if (this.#check(call, 'waits still')) this.#busyAt.delete(call);
  }

  #check(call: Call, outcome: Outcome): boolean {
    const busyAt = this.#busyAt.get(call);
    const { world, plan } = this.facts;
    if (busyAt === undefined || call.process.isDead) return false;
    const waitedMs = call.process.clock.now() - call.startedMono;
    const sinceHeardMs = world.now - busyAt - 2 * plan.profile.network.delayMax - BUSY_LATE_MS;
    if (sinceHeardMs <= 0 || waitedMs <= call.waitMs + BUSY_LATE_MS) return false;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(0)} of ${call.waitMs} ms, and the lock was known to be busy`;
    world.violate('a busy lock is waited for no longer than waitMs', text);
    return true;
  }
}

/** An abort ends a wait at once, counted on the clock of the process; and no call gives up before its time. */
export class Settling extends Scope implements Rule {
  onSettled(call: Call, outcome: Outcome): void {
    this.#checkPatience(call, outcome);
    this.#checkListeners(call);
    const { process, abortedAt } = call;
    const wasStopped = process.stops.some(({ to }) => to >= abortedAt);
    const laterMs = (this.facts.world.now - abortedAt) * process.rate;
    if (laterMs <= 1 + this.facts.givingBackMs(call) || outcome === 'granted' || wasStopped) return;
    this.facts.world.violate('an abort ends a wait at once', `${call.text}: ${outcome}, ${laterMs} ms later`);
  }

  /** A timer may fire half a millisecond early. A fire that was claimed ends the wait for it. */
  #checkPatience(call: Call, outcome: Outcome): void {
    const waitedMs = waitedOf(call);
    const isEarly = outcome === 'LockWaitTimeoutError' && waitedMs < call.waitMs - 1;
    const isUnwilling = call.waitMs > 0 && !call.plan.claim && (outcome === 'LockBusyError' || outcome === 'busy');
    if (!isEarly && !isUnwilling) return;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(1)} of ${call.waitMs} ms`;
    this.facts.world.violate('no call gives up before its time', text);
  }

  /** A signal may live as long as its application. */
  #checkListeners({ signal, text }: Call): void {
    const count = signal ? getEventListeners(signal, 'abort').length : 0;
    if (count > 0) this.facts.world.violate('10: nothing is left on a signal', `${text}: ${count} listeners`);
  }
}

const waitedOf = ({ process, startedMono }: Call): number => process.clock.now() - startedMono;
