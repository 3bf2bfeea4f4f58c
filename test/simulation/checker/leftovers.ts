import { type SimRedis } from '../client/sim-redis.js';
import { FIRST_SENTINEL } from '../server/sentinel.js';
import { type SimServer } from '../server/sim-server.js';
import { type Application } from '../workload/application.js';
import { type Call, type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { lockOn } from '../../support/lua/lock-view.js';
import { type Change, Scope, type Rule } from './rule.js';

/** A release is tried again after at most a second, and takes a command. */
const RELEASE_MS = 1_500;

/** After a fault, the releases that failed are on their way again within this time. */
const AFTER_FAULT_MS = 7_000;

/** Promises 3 and 10: no hold and no place stays behind for a call that is over, and nothing at all at the end. */
export class Leftovers extends Scope implements Rule {
  readonly #keys = new Set<string>();
  readonly #reported = new Set<string>();
  /** Since when a call continues with another attempt. */
  readonly #replacedAt = new Map<string, number>();

  onChange({ key }: Change): void {
    this.#keys.add(key);
  }

  onTick(): void {
    if (this.facts.isQuorum) return;
    for (const key of this.#keys) this.#check(this.facts.authorityOf(key), key);
  }

  #check(server: SimServer, key: string): void {
    const lock = lockOn(server, key);
    const now = server.nowMs;
    for (const [attempt, { deadline, token }] of lock.holds) {
      if (deadline > now && token > 0) this.#checkAttempt(server, key, attempt, 'hold');
    }
    for (const { attempt, deadline } of lock.queue.values()) {
      if (deadline > now) this.#checkAttempt(server, key, attempt, 'place');
    }
  }

  #checkAttempt(server: SimServer, key: string, attempt: string, what: string): void {
    const { facts } = this;
    const { world } = facts;
    const call = facts.callOf.get(attempt);
    const { failovers } = this.facts;
    if (failovers.isForgotten(attempt) || failovers.wasElsewhere(attempt)) return;
    if (!call || call.process.isDead || call.process.isStopped || this.#reported.has(attempt)) return;
    const over = this.#overSince(call, attempt);
    // A release that is answered by an error of the key is not tried again: the lock ends with its lease.
    if (!over || over.since <= (facts.foreignUntil.get(key) ?? -Infinity)) return;
    const { resendMax } = facts.plan.profile.network;
    const sinceWell = world.now - Math.max(over.since, facts.recoveredAt(call.process));
    const sinceFault = world.now - Math.max(over.since, facts.troubledUntil(call.process));
    const isWanted = over.until > world.now + 50;
    if (sinceWell <= RELEASE_MS + 4 * resendMax && (sinceFault <= AFTER_FAULT_MS || !isWanted)) return;
    this.#reported.add(attempt);
    const text = `${key}: a ${what} of ${call.text}, over for ${(world.now - over.since).toFixed(0)} ms: ${facts.show(server, key)}`;
    world.violate(`10: no ${what} without an owner`, text);
  }

  /** Since when an attempt is unwanted, and until when its locks are given back; undefined if it is wanted. */
  #overSince(call: Call, attempt: string): { since: number; until: number } | undefined {
    const { held } = call;
    if (call.isPending) {
      if (call.attempt === attempt || call.granted.includes(attempt)) return void this.#replacedAt.delete(attempt);
      const since = this.#replacedAt.get(attempt) ?? this.facts.world.now;
      this.#replacedAt.set(attempt, since);
      return { since, until: Infinity };
    }
    if (!held || !call.granted.includes(attempt))
      return { since: call.settledAt, until: call.settledAt + call.leaseMs };
    if (held.releasedAt === Infinity || held.call.plan.nested) return undefined;
    // Whether the work continues is unknown: a lost lock that is dropped ends with its lease.
    if (held.call.plan.isDropped && held.lost !== null) return undefined;
    return { since: held.releasedAt, until: held.wantedUntil };
  }

  onEnd(): void {
    for (const server of this.facts.network.servers) {
      for (const key of server.keys) {
        const { holds, queue } = lockOn(server, key);
        const isLive = ({ deadline }: { readonly deadline: number }): boolean => deadline > server.nowMs;
        if (![...holds.values()].some(isLive) && ![...queue.values()].some(isLive)) continue;
        this.facts.world.violate(
          '10: nothing is left on a server',
          `${server.name} ${key}: ${this.facts.show(server, key)}`,
        );
      }
    }
  }
}

/**
 * A node that is away gets its releases a quarter of a second after it is known to be back, and a late vote is given back then.
 * A machine that was gone is known to be back when TCP sends again, up to a second later (`Socket`).
 */
const NODE_RELEASE_MS = 2_200;

/** Promise 10, for each node of a quorum: no hold stays behind for an attempt that is over, nor for one that was replaced. */
export class QuorumLeftovers extends Scope implements Rule {
  readonly #overSince = new Map<string, number>();

  onTick(): void {
    if (!this.facts.isQuorum) return;
    for (const server of this.facts.network.servers) {
      for (const key of server.keys) this.#check(server, key);
    }
  }

  #check(server: SimServer, key: string): void {
    const { holds, queue } = lockOn(server, key);
    const now = server.nowMs;
    for (const [attempt, { deadline, token }] of holds) {
      if (deadline > now && token > 0) this.#checkAttempt(server, key, attempt, 'hold');
    }
    for (const { attempt, deadline } of queue.values()) {
      if (deadline > now) this.#checkAttempt(server, key, attempt, 'place');
    }
  }

  #checkAttempt(server: SimServer, key: string, attempt: string, what: string): void {
    const { world, callOf, plan } = this.facts;
    const call = callOf.get(attempt);
    if (!call || call.process.isDead || call.process.isStopped || call.process.isClosing) return;
    const id = `${server.id} ${attempt}`;
    if (!this.#isOver(call, attempt)) return void this.#overSince.delete(id);
    const since = this.#overSince.get(id) ?? world.now;
    this.#overSince.set(id, since);
    const overMs = world.now - Math.max(since, this.facts.troubledUntil(call.process));
    if (overMs <= NODE_RELEASE_MS + 4 * plan.profile.network.resendMax) return;
    const text = `${server.name} ${key}: a ${what} of ${call.text}, over for ${overMs.toFixed(0)} ms: ${this.facts.show(server, key)}`;
    world.violate(`10: no ${what} without an owner`, text);
  }

  #isOver(call: Call, attempt: string): boolean {
    const { held } = call;
    if (call.isPending) return call.attempt !== attempt;
    if (held?.attempt !== attempt) return true;
    return held.releasedAt < Infinity && !call.plan.nested && !(call.plan.isDropped && held.lost !== null);
  }
}

/** After this time, the caller of a release no longer waits for its answer (lib/core/timing.ts). */
const PATIENCE_MS = 900;

/** A release that is answered within this time is sent once. */
const ONCE_MS = 95;

const CONFIRMED = ['released', 'again'];

/** The end of a lock is reported as it was: held to the end, or lost before. */
export class Endings extends Scope implements Rule {
  /** What the releases of an attempt were answered. */
  readonly #replies = new Map<string, string[]>();
  /** Attempts of which a release was executed that states that it is a repetition. */
  readonly #repeated = new Set<string>();
  /** Attempts whose first release was executed after another copy of it: it may find no trace of what that one released. */
  readonly #reordered = new Set<string>();

  onChange({ script, reply }: Change): void {
    if (script.name !== 'release' || this.facts.isQuorum) return;
    const attempt = script.text('attempt');
    this.#replies.set(attempt, [...(this.#replies.get(attempt) ?? []), String(reply[0])]);
    if (script.text('token') === '1') this.#repeated.add(attempt);
    else if (this.#repeated.has(attempt)) this.#reordered.add(attempt);
  }

  onReleased(held: Held, wasHeld: boolean, tookMs: number): void {
    const { call, hold, attempt, keys } = held;
    const replies = this.#replies.get(attempt) ?? [];
    if (this.facts.isQuorum || !hold || call.plan.nested || tookMs >= PATIENCE_MS || call.process.isClosing) return;
    const isInTime = tookMs < ONCE_MS && held.wantedUntil > this.facts.world.now;
    const isAnsweredOnce = isInTime && replies.length === keys.length && !this.#isTroubled(held);
    const isGone = replies.some((reply) => !CONFIRMED.includes(reply));
    if (wasHeld && isAnsweredOnce && isGone) this.#violate('4: a loss is always reported', held, replies);
    const wasReleased = replies.filter((reply) => reply === 'released').length === keys.length;
    const wasProven = held.wantedUntil > held.releasedAt + 1;
    // A demoted master also answers, and does not have the hold.
    if (this.facts.failovers.isForgotten(attempt)) return;
    const isProvable = wasReleased && !this.#reordered.has(attempt);
    if (!wasHeld && isProvable && wasProven && call.plan.claim?.ends !== 'failed')
      this.#violate('a release is reported as it was', held, replies);
  }

  /** A command may have been sent twice. */
  #isTroubled({ call, releasedAt }: Held): boolean {
    return this.facts.troubledUntil(call.process) + 5_000 >= releasedAt;
  }

  #violate(rule: string, { call, lost }: Held, replies: readonly string[]): void {
    this.facts.world.violate(rule, `${call.text}: lost ${lost}, and its releases were ${replies.join(', ')}`);
  }
}

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A release may take a second; the last ones have another quarter of a second (lib/core/timing.ts). */
const RELEASES_MS = 1_020;

/** How long `close()` waits for the sockets (lib/redis/timing.ts), with a late timer. */
const SOCKETS_MS = 520;

/** Promise 10, for processes: a shutdown takes its time and no more, and nothing is left in a process. */
export class ProcessEnd {
  constructor(private readonly facts: Facts) {}

  onLockerClosed(app: Application, drainMs: number, from: { at: number; mono: number }): void {
    this.#checkTime(app, 'the shutdown', drainMs + RELEASES_MS, from);
    const { locks, waiting } = app.locker.live;
    if (locks + waiting > 0) this.#violate(app, `after the shutdown: ${JSON.stringify(app.locker.live)}`);
  }

  onStoreClosed(app: Application, from: { at: number; mono: number }): void {
    this.#checkTime(app, 'the end of the connections', SOCKETS_MS, from);
    const { given, givenListeners } = app;
    if (given && given.allListeners !== givenListeners)
      this.#violate(app, `the given client has ${given.allListeners} listeners, and had ${givenListeners}`);
  }

  /** Some seconds after the shutdown. */
  onQuiet(app: Application): void {
    this.#checkNothing(app);
    for (const call of this.facts.pending) {
      if (call.process === app.process) this.#violate(app, `${call.name} still waits after the shutdown`);
    }
  }

  /** At the end of the run. */
  onEnd(app: Application): void {
    this.#checkNothing(app);
    const { process } = app;
    const unanswered = [...this.facts.network.of(process).clients].filter(
      (client) => client.unanswered > 0 && !isIdle(client),
    );
    if (unanswered.length > 0)
      this.#violate(app, `commands without an answer: ${unanswered.map((client) => client.text).join(', ')}`);
    if (process.timers > (this.facts.network.topology?.idleTimers ?? 0))
      this.#violate(app, `${process.timers} timers are set`);
  }

  #checkNothing(app: Application): void {
    const live: Readonly<Record<string, number>> = app.locker.live;
    if (Object.keys(NOTHING).some((name) => live[name] !== 0)) this.#violate(app, `left: ${JSON.stringify(live)}`);
    if (app.process.garbage.size > 0) this.#violate(app, `${app.process.garbage.size} handles are watched`);
  }

  #checkTime({ process }: Application, what: string, boundMs: number, from: { at: number; mono: number }): void {
    const tookMs = process.clock.now() - from.mono;
    if (tookMs <= boundMs || process.stops.some(({ to }) => to >= from.at)) return;
    const text = `${what} of ${process.name} took ${tookMs.toFixed(0)} of ${boundMs} ms`;
    this.facts.world.violate('a shutdown takes its time and no more', text);
  }

  #violate({ process }: Application, text: string): void {
    this.facts.world.violate('10: nothing is left in a process', `${process.name}: ${text}`);
  }
}

/** It pings a sentinel, or asks for the slots of a cluster. */
const isIdle = ({ options, commandQueue }: SimRedis): boolean =>
  options.port >= FIRST_SENTINEL || commandQueue.every(({ name }) => name === 'cluster');
