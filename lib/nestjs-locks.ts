import { createHash } from 'node:crypto';
import { type Locker } from './core/acquire/locker.js';
import { mayBeCarriedOut } from './core/lock.errors.js';
import { MAX_LEASE_MS } from './core/lock.options.js';
import { checkDuration, checkOwner } from './core/option-checks.js';
import { systemRandomness } from './core/randomness.js';
import { randomAttempt, releasesOfAttempt } from './core/store/attempt-ids.js';
import { HolderTexts } from './core/store/holder-text.js';
import { type LockHolder } from './core/store/lock-state.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from './core/store/lock-store.js';
import { commandTimeoutMs, failureRetryMs, FIRST_ANSWER_MS } from './core/timing.js';
import type { RedisLockService } from './redis-lock.service.js';

/** What `acquire` of a store of `@nestjs/locks` resolves to. */
export type NestLocksGrant = { readonly acquired: true; readonly fencingToken: number } | { readonly acquired: false };

const NOT_ACQUIRED: NestLocksGrant = { acquired: false };

/**
 * The locks of this package as a store of `@nestjs/locks`, the official package: `acquire`, `renew` and `release` by the name
 * of an owner. A lock is taken once, also by its owner. Whoever knows the owner may renew or release it, in any process. It is
 * not renewed by our watchdog, and a shutdown does not release it: that is up to `@nestjs/locks`.
 *
 * It is written against the contract of November 2026, when that package was not published: it is neither built nor exported
 * until then, and will be `nestjs-redis-lock/nestjs-locks`.
 *
 * Keys are shared with `@Locked` and `RedisLockService`, which exclude the holders of this store, and the other way round.
 */
export class NestLocksStore {
  readonly #locker: Locker;
  readonly #store: LockStore;

  /** The locks of this service, which is that of the module, or of one of several modules. */
  constructor(locks: RedisLockService) {
    const { locker, store } = locks.parts;
    this.#locker = locker;
    this.#store = store;
  }

  /**
   * Takes a free lock for `ttl` milliseconds (1 to 30 days); never waits. The token of each grant is greater than all before.
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async acquire(key: string, owner: string, ttl: number): Promise<NestLocksGrant> {
    this.#check(key, owner);
    checkTtl(ttl);
    return this.#locker.awaited.keepAlive(this.#acquire(key, owner, ttl));
  }

  /**
   * Has a lock of this owner last for `ttl` milliseconds from now; never shortens its lease.
   * @returns false when the owner does not hold the lock, or not any more
   * @throws LockStoreError when it is not known; LockKeyError, LockConfigurationError
   */
  async renew(key: string, owner: string, ttl: number): Promise<boolean> {
    this.#check(key, owner);
    checkTtl(ttl);
    return this.#locker.awaited.keepAlive(this.#renew(key, owner, ttl));
  }

  /**
   * Releases a lock of this owner.
   * @returns false when the owner does not hold the lock, or not any more
   * @throws LockStoreError when it is not known; LockKeyError, LockConfigurationError
   */
  async release(key: string, owner: string): Promise<boolean> {
    this.#check(key, owner);
    return this.#locker.awaited.keepAlive(this.#release(key, owner));
  }

  #check(key: string, owner: string): void {
    this.#store.checkKey(key);
    checkOwner(owner, 'owner');
  }

  /** A quorum may need several attempts: calls that split its votes get nothing, though nobody holds the lock. */
  async #acquire(key: string, owner: string, ttl: number): Promise<NestLocksGrant> {
    const { clock } = this.#locker;
    const until = clock.now() + timeoutMs(ttl);
    for (let tries = 1; ; tries += 1) {
      const reply = await this.#ask(this.#requestOf(key, owner, ttl), Math.max(until - clock.now(), 1));
      if (reply.outcome === 'granted') return { acquired: true, fencingToken: reply.fencingTokens[0]! };
      if (reply.outcome === 'busy' && !reply.isSplit) return NOT_ACQUIRED;
      const pauseMs = reply.outcome === 'busy' ? reply.retryMs : failureRetryMs(tries, systemRandomness);
      if (clock.now() + pauseMs >= until) {
        if (reply.outcome === 'given-back') throw reply.cause;
        return NOT_ACQUIRED;
      }
      await new Promise<void>((resolve) => void clock.setTimer(resolve, pauseMs));
    }
  }

  #requestOf(key: string, owner: string, leaseMs: number): AcquireRequest {
    const { clientId } = this.#store;
    const [client, unique] = randomAttempt(clientId, systemRandomness).split('.');
    return {
      keys: [key],
      // The attempt of a grant tells its owner. Its end is random: an owner may take a lock that it has released.
      attempt: `${client}.${markOf(owner)}${unique}`,
      // The store would let attempts of one owner share the lock.
      owner: undefined,
      mode: 'write',
      leaseMs,
      waiterLeaseMs: 0,
      fair: false,
      permits: 0,
      holder: this.#holderTextOf(owner),
    };
  }

  /** `inspect()` reports the owner as `where`. */
  #holderTextOf(owner: string): string {
    return new HolderTexts(this.#locker.instance).of(owner, 0, '');
  }

  /** Sends a request. What it may have got without an answer is given back. */
  async #ask(request: AcquireRequest, limitMs: number): Promise<AcquireReply> {
    let hasFailed = false;
    const giveBack = (): void => {
      for (const release of releasesOfAttempt({ ...request, unanswered: true })) {
        this.#store.release(release, timeoutMs(request.leaseMs)).catch(() => undefined);
      }
    };
    const onLate = ({ outcome }: AcquireReply): void => {
      if (hasFailed && outcome === 'granted') giveBack();
    };
    try {
      return await this.#store.acquire(request, limitMs, onLate);
    } catch (error) {
      hasFailed = true;
      if (mayBeCarriedOut(error)) giveBack();
      throw error;
    }
  }

  async #renew(key: string, owner: string, leaseMs: number): Promise<boolean> {
    const hold = await this.#holdOf(key, owner);
    if (!hold) return false;
    const { attempt, fencingToken, mode } = hold;
    const holder = this.#holderTextOf(owner);
    const request = { key, attempt, fencingToken, mode, leaseMs, owner: undefined, holder };
    const [reply] = await this.#store.renew([{ ...request, timeoutMs: timeoutMs(leaseMs) }]);
    if (reply!.outcome === 'unknown') throw reply!.cause;
    return reply!.outcome === 'renewed';
  }

  async #release(key: string, owner: string): Promise<boolean> {
    const hold = await this.#holdOf(key, owner);
    if (!hold) return false;
    const leaseMs = Math.max(hold.remainingMs, 1);
    const release = { key, attempt: hold.attempt, holdAtLeastMs: 0, leaseMs };
    const { outcome } = await this.#store.release(release, timeoutMs(leaseMs));
    // It was held a moment ago: an earlier copy of this command, or another call of this owner, has released it.
    return outcome === 'released' || outcome === 'again';
  }

  /** The hold of this owner. A command for it names its attempt and its token: it changes that hold, or none. */
  async #holdOf(key: string, owner: string): Promise<LockHolder | undefined> {
    const mark = markOf(owner);
    const { holders } = await this.#store.inspect(key);
    return holders.find(({ attempt }) => attempt.slice(attempt.indexOf('.') + 1).startsWith(mark));
  }
}

/** Whole milliseconds, from 1 to 30 days. */
const checkTtl = (ttl: number): void => checkDuration(ttl, 'ttl', { min: 1, max: MAX_LEASE_MS });

/** The limit of a command. A lease of a few milliseconds must not make an answer late. */
const timeoutMs = (ttl: number): number => Math.max(commandTimeoutMs(ttl), FIRST_ANSWER_MS);

/** The same in each process, and longer than what follows the client in any other attempt. */
const markOf = (owner: string): string => createHash('sha256').update(owner).digest('base64url').slice(0, 22);
