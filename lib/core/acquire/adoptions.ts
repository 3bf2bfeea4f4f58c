import { type Clock } from '../clock.js';
import { notAdoptedError, otherPrefixError, shutdownError } from '../error-texts.js';
import { type Grant } from '../hold/grant.js';
import { leaseFrom, moment, remainingAt } from '../hold/lease.js';
import { lossReasonOf } from '../hold/loss.js';
import { type Releaser } from '../hold/releaser.js';
import { type TransferredHold, type TransferredKey } from '../hold/transfer-text.js';
import { LocalWait } from '../local-wait.js';
import { type LockLostError, mayBeCarriedOut } from '../lock.errors.js';
import { NO_LABEL } from '../lock.events.js';
import { resolveLockOptions } from '../lock.options.js';
import { type Randomness } from '../randomness.js';
import { randomAttempt } from '../store/attempt-ids.js';
import { type AdoptingStore, checkKeyOf, hasAdoption, storeWith } from '../store/capabilities.js';
import { type AdoptReply, type LockStore } from '../store/lock-store.js';
import { type TimerQueue } from '../timer-queue.js';
import { commandTimeoutMs } from '../timing.js';

/** The collaborators of `Adoptions`. */
interface AdoptionParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly releaser: Pick<Releaser, 'giveBackAttempt'>;
  /** What the module closes at its end. */
  readonly closing: Set<{ close(): unknown }>;
}

/** A transferred hold, and the process that adopts it. */
export interface Adoption extends TransferredHold {
  /** The holder from now on, as text. */
  readonly holder: string;
  readonly awaitRelease: boolean;
}

/** What became of one key. */
interface Outcome {
  readonly hold: TransferredKey;
  readonly reply: AdoptReply | null;
  /** Why there is no reply. */
  readonly error?: unknown;
}

/** Adopts holds that other processes have transferred. */
export class Adoptions {
  constructor(private readonly parts: AdoptionParts) {}

  /**
   * Adopts all keys of a hold, or gives back those that it got. Afterwards all of them are one hold with one attempt. Resolves with what
   * `toResult` makes of the grant.
   * @throws LockLostError, LockStoreError, LockConfigurationError, LockKeyError; LockShutdownError when the module closes meanwhile
   */
  async adopt<T>(adoption: Adoption, toResult: (grant: Grant) => T): Promise<T> {
    const { clock, random, store, timers, closing } = this.parts;
    const { holds, keyPrefix } = adoption;
    const ours = store.keyPrefix ?? '';
    if (keyPrefix !== ours) throw otherPrefixError(nameOf(adoption), keyPrefix, ours);
    const adopting = storeWith(store, hasAdoption, '`adopt()`');
    for (const { key } of holds) checkKeyOf(store, key);
    const attempt = randomAttempt(store.clientId, random);
    const sent = moment(clock);
    const wait = new LocalWait<T>(timers, undefined, () => closing.delete(call));
    const call = {
      close: () => {
        const outcomes = holds.map((hold) => ({ hold, reply: null }));
        this.#giveBack(outcomes, adoption, attempt);
        wait.fail(shutdownError());
      },
    };
    closing.add(call);
    const outcomes = this.#askForAll(adopting, adoption, attempt, wait);
    void outcomes.then((all) => {
      // From now on, a shutdown waits for the holder: a listener of `adopted` may begin one.
      closing.delete(call);
      this.#onAnswered(all, adoption, { attempt, sent }, wait, toResult);
    });
    return wait.promise;
  }

  #onAnswered<T>(
    outcomes: readonly Outcome[],
    adoption: Adoption,
    { attempt, sent }: Pick<Grant, 'attempt' | 'sent'>,
    wait: LocalWait<T>,
    toResult: (grant: Grant) => T,
  ): void {
    // The module has closed, and has given the attempt back.
    if (wait.isOver) return;
    const remaining = outcomes.map(({ reply }) => (reply?.outcome === 'adopted' ? reply.remainingMs : 0));
    const lease = leaseFrom(sent, Math.min(...remaining));
    const receivedAt = moment(this.parts.clock);
    if (outcomes.length === adoption.holds.length && remainingAt(lease, receivedAt) > 0)
      return wait.succeed(toResult({ ...grantOf(adoption, attempt, sent.at), lease, sent, receivedAt }));
    this.#giveBack(outcomes, adoption, attempt);
    wait.fail(errorOf(adoption, outcomes));
  }

  /** The first key decides: of two processes with the same transfer token, the one that gets it also gets the others. */
  async #askForAll(
    store: AdoptingStore,
    adoption: Adoption,
    attempt: string,
    wait: { readonly isOver: boolean },
  ): Promise<readonly Outcome[]> {
    const [first, ...others] = adoption.holds;
    const decisive = await this.#askFor(store, first!, adoption, attempt);
    if (decisive.reply?.outcome !== 'adopted' || wait.isOver) return [decisive];
    return [decisive, ...(await Promise.all(others.map((hold) => this.#askFor(store, hold, adoption, attempt))))];
  }

  async #askFor(
    store: AdoptingStore,
    hold: TransferredKey,
    { leaseMs, holder }: Adoption,
    attempt: string,
  ): Promise<Outcome> {
    const { key, attempt: from, fencingToken, unanswered } = hold;
    const request = { key, attempt, from, fencingToken, leaseMs, holder, unanswered };
    try {
      return { hold, reply: await store.adopt(request, commandTimeoutMs(leaseMs)) };
    } catch (error) {
      return { hold, reply: null, error };
    }
  }

  /** The store may still receive a command without an answer: after this, it adopts nothing, and the transfer token works again. */
  #giveBack(outcomes: readonly Outcome[], { leaseMs }: Adoption, attempt: string): void {
    for (const { hold, reply, error } of outcomes) {
      const unanswered = reply === null;
      if (unanswered ? !mayBeCarriedOut(error) : reply.outcome === 'lost') continue;
      const asked = { keys: [hold.key], attempt, leaseMs, unanswered };
      this.parts.releaser.giveBackAttempt(asked, commandTimeoutMs(leaseMs));
    }
  }
}

const nameOf = ({ holds, mode }: Adoption) => ({ key: holds.map(({ key }) => key).join(', '), mode });

/** The grant of an adopted hold, without its lease. The fencing token stays the same. */
function grantOf(adoption: Adoption, attempt: string, startedAt: number): Omit<Grant, 'lease' | 'sent' | 'receivedAt'> {
  const { holds, mode, grantedMode, handedOn, holder, ...own } = adoption;
  // Only nested calls ask for permits, and a handle has none.
  const options = resolveLockOptions({ ...own, mode: grantedMode }, { ...own, waitMs: 0, isQuorum: false });
  const keys = holds.map(({ key }) => key);
  return {
    request: { keys, name: keys.join(', '), options, label: NO_LABEL, holder, startedAt },
    tokens: holds.map(({ fencingToken }) => fencingToken),
    attempt,
    presentMode: mode,
    handedOn,
    hasNewHolder: false,
    fire: undefined,
    serverTimeMs: 0,
    unanswered: null,
  };
}

/** Without a reply that gives the reason, an answer came too late: the lease is over. */
function errorOf(adoption: Adoption, outcomes: readonly Outcome[]): unknown {
  const { holds, mode, grantedMode, handedOn } = adoption;
  const failed = outcomes.find(({ reply }) => reply === null);
  const lost = (reason: LockLostError['reason']): LockLostError => {
    const fencingTokens = holds.map(({ fencingToken }) => fencingToken + handedOn);
    return notAdoptedError({ ...nameOf(adoption), fencingTokens }, reason);
  };
  for (const { hold, reply } of outcomes) {
    if (reply?.outcome === 'lost') return lost(lossReasonOf(hold.fencingToken, grantedMode !== mode, reply));
  }
  return failed ? failed.error : lost('expired');
}
