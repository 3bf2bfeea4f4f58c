import { type SimServer } from '../server/sim-server.js';
import { type Held } from '../workload/call.js';
import { KEY_PREFIX } from './facts.js';
import { liveHold } from '../../support/lua/lock-view.js';
import { type Change, Scope, type NewGrant, type Rule } from './rule.js';

/** Promise 1, on the servers: who believes to hold does hold. */
export class Belief extends Scope implements Rule {
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
}

/** A command, the turn of a busy process, and a message that comes late. */
const UNAWARE_MS = 1_500;

/**
 * Promise 4: a holder that has lost a lock on the server (or on a majority of a quorum) hears of it with the next renewal, after a
 * third of the lease at the latest.
 */
export class Losses extends Scope implements Rule {
  readonly #goneSince = new Map<Held, number>();

  onTick(): void {
    for (const held of this.facts.held) if (held.hold) this.#check(held);
  }

  #check(held: Held): void {
    const { world, plan } = this.facts;
    const { process } = held.call;
    if (held.lost !== null || held.releasedAt < Infinity || process.isDead || process.isStopped) return;
    if (this.#isBacked(held)) return void this.#goneSince.delete(held);
    const since = this.#goneSince.get(held) ?? world.now;
    this.#goneSince.set(held, since);
    const extensions = held.call.plan.steps.map(({ leaseMs }) => leaseMs ?? 0);
    const leaseMs = Math.max(held.call.leaseMs, held.call.plan.options.holdAtLeastMs ?? 0, ...extensions);
    const { delayMax, resendMax } = plan.profile.network;
    // Without renewals, the end of the lease reveals it.
    const toldMs = held.call.plan.options.renew === false ? leaseMs : leaseMs / 3;
    const boundMs = toldMs * 1.02 + UNAWARE_MS + 8 * delayMax + 4 * resendMax;
    const unawareMs = world.now - Math.max(since, this.facts.recoveredAt(process));
    if (unawareMs <= boundMs) return;
    world.violate('4: a loss is always reported', `${held.call.text} has lost its lock ${unawareMs.toFixed(0)} ms ago`);
  }

  #isBacked({ hold, attempt }: Held): boolean {
    const { facts } = this;
    return hold!.keys.every((key) => {
      const backing = facts
        .votersFor(KEY_PREFIX + key)
        .filter((server) => (facts.lockOf(server, key).holds.get(attempt)?.deadline ?? 0) > server.nowMs);
      return backing.length >= facts.majority;
    });
  }
}

/** After the last fault, a renewal was tried again within this time. */
const RETRY_MS = 1_500;

/** Promise 4: a loss is reported by the signal, by `held` and with its reason; and a lock is never lost while all works. */
export class LossReports extends Scope implements Rule {
  readonly #lastToken = new Map<string, number>();

  onGrant({ server, key, hold }: NewGrant): void {
    const id = `${server.id} ${key}`;
    this.#lastToken.set(id, Math.max(this.#lastToken.get(id) ?? 0, hold.token));
  }

  /** A quorum may raise the token of a hold. */
  onChange({ script, server, key, lock }: Change): void {
    if (script.name === 'writeBack') this.#lastToken.set(`${server.id} ${key}`, lock.token);
  }

  onLost(held: Held): void {
    const { lock, call } = held;
    if (lock.held)
      this.violate('4: a lost lock is not held', held.call, `held for ${lock.remainingMs.toFixed(0)} ms more`);
    if (call.plan.listens && held.releasedAt === Infinity && !lock.signal.aborted)
      this.violate('4: a loss aborts the signal', held.call, `its signal is not aborted`);
    const isRight = this.#isRight(held);
    if (!isRight) this.violate('4: a loss has its reason', held.call, `the reason is not a ${held.lost}`);
    this.#checkNeed(held);
  }

  /** A renewal that finds the lock gone reports why. */
  #isRight(held: Held): boolean {
    const { lost, attempt, hold, call } = held;
    const isProven = hold!.deadline > call.process.clock.now();
    const wasRevoked = this.facts.revoked.has(attempt) && isProven && !this.facts.isQuorum;
    if (lost === 'expired') return !wasRevoked;
    return lost !== 'taken' || (!wasRevoked && this.#wasTaken(held));
  }

  /** Whether a greater token was granted. A lock of several keys in several slots is lost with any of them. */
  #wasTaken({ lock }: Held): boolean {
    return lock.keys.some((key, i) =>
      this.facts.network.servers.some(
        ({ id }) => (this.#lastToken.get(`${id} ${KEY_PREFIX}${key}`) ?? 0) > lock.fencingTokens[i]!,
      ),
    );
  }

  /** A lease that is renewed runs out only while something is wrong with the way to Redis. */
  #checkNeed(held: Held): void {
    const { world, plan, network } = this.facts;
    const { process } = held.call;
    const { leaseMs, renew } = held.call.plan.options;
    if (held.lost !== 'expired' && held.lost !== 'unreachable') return;
    if (held.releasedAt < Infinity || renew === false || process.isClosing || held.call.app.given) return;
    const { delayMax, resendMax } = plan.profile.network;
    const isShort = leaseMs! < 100 + 10 * delayMax + 6 * resendMax + this.facts.confirmMs;
    const isExempt = network.servers.some((server) => this.facts.isExempt(held, server));
    const wellMs = world.now - Math.max(this.facts.recoveredAt(process), held.askedAt);
    if (isShort || isExempt || wellMs <= RETRY_MS + resendMax || plan.profile.rates.stepClock) return;
    this.violate(
      'a lock is kept while Redis answers',
      held.call,
      `${held.lost}, although all is well for ${wellMs.toFixed(0)} ms`,
    );
  }

  /** A call nested in a hold rejects when that hold was lost. A call after its release gets a separate hold. */
  onReleased({ call, hold }: Held, wasHeld: boolean): void {
    const outer = call.outer?.held;
    if (!wasHeld || !outer?.lost || hold || call.plan.entry !== 'withLock') return;
    this.facts.world.violate(
      '4: a loss is always reported',
      `${call.text} returned although ${outer.call.text} was lost`,
    );
  }
}

/** Nested calls: they need no command, never write inside a reader, and keep the outer lock. */
export class Nesting extends Scope implements Rule {
  onChange({ script, key }: Change): void {
    if (!script.name.startsWith('acquire')) return;
    const call = this.facts.callOf.get(script.text('attempt'));
    const outer = call?.outer?.held;
    if (!call?.isPending || !outer || !this.#isInside(outer)) return;
    const isOwn = outer.keys.some((name) => KEY_PREFIX + name === key);
    if (isOwn) this.violate('a nested call needs no command', outer.call, `${call.name} requests ${key}`);
  }

  /** A nested call that was not awaited keeps the hold that its caller has released. */
  onEvent(): void {
    for (const held of this.facts.held) {
      const outer = held.call.outer?.held;
      // A call that comes too late for the outer hold gets a new one, which may be gone again.
      const isInside = held.attempt === '' && held.releasedAt === Infinity;
      if (outer?.hold && outer.releasedAt < Infinity && isInside) this.#checkBacked(held, outer);
    }
  }

  #checkBacked(held: Held, outer: Held): void {
    if (outer.hold!.isEnded && outer.lost === null && !held.call.process.isDead)
      return this.violate('11: a nested call keeps the outer lock', outer.call, `${held.call.name} is still inside`);
    if (this.facts.isQuorum || !held.lock.held) return;
    const isBacked = held.keys.every((key) => {
      const server = this.facts.authorityOf(KEY_PREFIX + key);
      const lock = this.facts.lockOf(server, key);
      // On a cluster, each slot has a separate attempt.
      return outer.call.granted.some((attempt) => {
        if (this.facts.isExempt(outer, server, attempt)) return true;
        return (liveHold(lock, attempt)?.deadline ?? 0) > server.nowMs;
      });
    });
    if (!isBacked)
      this.violate('1: a belief is backed', outer.call, `${held.call.name} is inside, and believes to hold it`);
  }

  onTick(): void {
    for (const held of this.facts.held) {
      const outer = held.call.outer?.held;
      if (outer) this.#checkWriter(held, outer);
      this.#checkKept(held);
    }
  }

  #checkWriter(held: Held, outer: Held): void {
    const isWriting = held.releasedAt === Infinity && held.lock.mode === 'write' && held.lock.held;
    const isShared = held.keys.some((key) => outer.keys.includes(key));
    if (isWriting && isShared && outer.lost === null && outer.lock.mode === 'read')
      this.violate('no writer is inside a reader', outer.call, `${held.call.name} writes`);
  }

  /** Only the holder releases a lock. */
  #checkKept({ hold, lost, releasedAt, call }: Held): void {
    if (!hold?.isReleased || lost !== null || releasedAt < Infinity || call.process.isDead) return;
    this.facts.world.violate('2: only its holder releases a lock', `${call.text} has not released it`);
  }

  #isInside({ lost, releasedAt }: Held): boolean {
    return lost === null && releasedAt === Infinity;
  }
}

/** Promise 11: the children of one hold exclude each other, and none believes to hold more than the outer hold does. */
export class Siblings extends Scope implements Rule {
  onHeld(next: Held): void {
    if (!this.#isNested(next)) return;
    for (const held of this.facts.held) {
      if (held === next || held.call.outer !== next.call.outer || held.releasedAt < Infinity) continue;
      const shared = next.keys.find((key) => held.keys.includes(key));
      if (shared === undefined || !this.#isNested(held) || this.#mayShare(held, next)) continue;
      const text = `${next.call.text} enters ${shared} together with ${held.call.text}, inside ${next.call.outer!.text}`;
      this.facts.world.violate('11: siblings exclude each other', text);
    }
  }

  onEvent(): void {
    for (const held of this.facts.held) {
      if (!this.#isNested(held) || held.releasedAt < Infinity || !held.lock.held) continue;
      const outer = held.call.outer!.held!;
      // The nested call, which keeps the hold, was not awaited.
      if (outer.releasedAt < Infinity) continue;
      if (held.lock.remainingMs <= outer.lock.remainingMs) continue;
      held.releasedAt = this.facts.world.now;
      const text = `${held.call.text} believes to hold for longer than ${outer.call.text}`;
      this.facts.world.violate('11: a nested hold ends with the outer one', text);
    }
  }

  /** It does not have a separate hold: its lock is that of the outer call. */
  #isNested({ call, hold }: Held): boolean {
    return call.outer?.held !== undefined && call.outer?.held !== null && hold === undefined;
  }

  /** Children that read may share, unless the outer hold is one permit of a semaphore, or a child counts permits. */
  #mayShare(a: Held, b: Held): boolean {
    const permits = [a, b, a.call.outer!.held!].some(({ call }) => (call.plan.options.permits ?? 0) > 0);
    return a.lock.mode === 'read' && b.lock.mode === 'read' && !permits;
  }
}
