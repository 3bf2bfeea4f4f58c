import { type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type NewGrant, type Rule } from './rule.js';

/** After the last fault, a renewal was tried again within this time. */
const RETRY_MS = 1_500;

/** Promise 4: a loss is told by the signal, by `held` and with its reason; and no lock is lost while nothing is wrong. */
export class LossReports implements Rule {
  readonly #lastToken = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

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
    if (lock.held) this.#violate('4: a lost lock is not held', held, `held for ${lock.remainingMs.toFixed(0)} ms more`);
    if (call.plan.listens && held.releasedAt === Infinity && !lock.signal.aborted)
      this.#violate('4: a loss aborts the signal', held, `its signal is not aborted`);
    const isRight = this.#isRight(held);
    if (!isRight) this.#violate('4: a loss has its reason', held, `the reason is no ${held.lost}`);
    this.#checkNeed(held);
  }

  /** A renewal that finds the lock gone says why. */
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
    this.#violate(
      'a lock is kept while Redis answers',
      held,
      `${held.lost}, although all is well for ${wellMs.toFixed(0)} ms`,
    );
  }

  /** A call that is nested in a hold rejects when that was lost. One that comes after its release has a hold of its own. */
  onReleased({ call, hold }: Held, wasHeld: boolean): void {
    const outer = call.outer?.held;
    if (!wasHeld || !outer?.lost || hold || call.plan.entry !== 'withLock') return;
    this.facts.world.violate(
      '4: a loss is always reported',
      `${call.text} returned although ${outer.call.text} was lost`,
    );
  }

  #violate(rule: string, { call }: Held, text: string): void {
    this.facts.world.violate(rule, `${call.text}: ${text}`);
  }
}
