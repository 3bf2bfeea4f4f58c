import { randomAttempt, releasesOfAttempt } from '../../../core/store/attempt-ids.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type HoldRef,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type WakeUp,
} from '../../../core/store/lock-store.js';
import { LockStoreError } from '../../../core/lock.errors.js';
import { type CaseTime } from './case-time.js';
import { promised } from './promised.js';

/** A lease that does not end while a case runs. */
export const LONG_MS = 30_000;
/** A lease that a case has end. */
export const SHORT_MS = 400;
/** Who asks, for people. */
export const HOLDER = 'host-1:4711 Orders.pay';

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;
type Busy = Extract<AcquireReply, { outcome: 'busy' }>;
type Refused = Extract<AcquireReply, { outcome: 'refused' }>;

/** What is asked of the store; the rest is an exclusive lock of the case's key, by a new attempt that does not wait. */
export type Wish = Partial<AcquireRequest>;

/** A hold of the first key that was asked for. */
export interface Hold extends HoldRef, Omit<Granted, 'outcome'> {
  readonly request: AcquireRequest;
}

/** One client of the server under test, and what it heard. */
export class Client {
  readonly heard: { readonly attempt: string; readonly wakeUp: WakeUp }[] = [];
  listenings = 0;
  /** Attempts that a store of several servers has given back on some; elsewhere they may still have their places. */
  readonly #spent = new Set<string>();

  constructor(
    readonly store: LockStore,
    readonly key: string,
    private readonly time: CaseTime,
  ) {
    store.listen({
      onWakeUp: (attempt, wakeUp) => void this.heard.push({ attempt, wakeUp }),
      onListening: () => void (this.listenings += 1),
      onGap: () => undefined,
    });
  }

  /** Those of `attemptIds` may meet by chance in their last characters, by which a store may know released attempts. */
  nextAttempt(): string {
    return randomAttempt(this.store.clientId);
  }

  request(wish: Wish): AcquireRequest {
    const { key } = this;
    const usual = { keys: [key], attempt: wish.attempt ?? this.nextAttempt(), owner: undefined, holder: HOLDER };
    return { ...usual, mode: 'write', leaseMs: LONG_MS, waiterLeaseMs: 0, fair: true, permits: 0, ...wish };
  }

  send(request: AcquireRequest): Promise<AcquireReply> {
    const asking = this.store.acquire(request, this.#timeoutMs, () => undefined);
    return this.time.answer('an acquire', asking);
  }

  /** Asks until there is an answer that counts; a store of several servers may have to be asked again. */
  async ask(wish: Wish): Promise<{ readonly request: AcquireRequest; readonly reply: Granted | Busy | Refused }> {
    let request = this.request(wish);
    return this.time.until('an answer that counts', async () => {
      const reply = await this.send(request).catch((error: unknown) => {
        if (!(error instanceof LockStoreError) || !error.retryable) throw error;
        return undefined;
      });
      const busy = reply?.outcome === 'busy' ? reply : undefined;
      // Where there is no answer, some servers may have been told to give it back.
      if (!reply || reply.outcome === 'given-back' || busy?.isSpent) this.#spent.add(request.attempt);
      if (reply && reply.outcome !== 'given-back' && !busy?.isSplit) return { request, reply };
      if (this.#spent.has(request.attempt)) request = await this.#anew(request);
      await this.time.pass(busy?.retryMs ?? 0);
      return undefined;
    });
  }

  async granted(who: string, wish: Wish = {}): Promise<Hold> {
    const { request, reply } = await this.ask(wish);
    promised(reply.outcome === 'granted', `${who} to be granted`, reply);
    return this.#hold(request, reply);
  }

  async busy(who: string, wish: Wish = {}): Promise<Busy & { readonly request: AcquireRequest }> {
    const { request, reply } = await this.ask(wish);
    promised(reply.outcome === 'busy', `${who} to be busy`, reply);
    return { ...reply, request };
  }

  /** As `busy`, and waits from then on. */
  waits(who: string, wish: Wish = {}) {
    return this.busy(who, { waiterLeaseMs: LONG_MS, ...wish });
  }

  async refused(who: string, reason: Refused['reason'], wish: Wish): Promise<Refused> {
    const { reply } = await this.ask(wish);
    const isRefused = reply.outcome === 'refused' && reply.reason === reason;
    promised(isRefused, `${who} to be refused as \`${reason}\``, reply);
    return reply;
  }

  /** Asks again and again, as who waits does; each time by the same attempt, unless the store says that it is spent. */
  async eventuallyGranted(who: string, wish: Wish = {}): Promise<Hold> {
    let request = this.request(wish);
    return this.time.until(`${who} to be granted`, async () => {
      if (this.#spent.has(request.attempt)) request = await this.#anew(request);
      const asked = await this.ask(request);
      promised(asked.reply.outcome !== 'refused', `${who} to be granted`, asked.reply);
      request = asked.request;
      return asked.reply.outcome === 'granted' ? this.#hold(request, asked.reply) : undefined;
    });
  }

  /** Waits until the store's time has come, while the lock stays busy for whoever asks. */
  async busyUntil(serverTimeMs: number, who: string, wish: Wish = {}): Promise<void> {
    await this.time.until('the time of the store to pass', async () => {
      return (await this.busy(who, wish)).serverTimeMs >= serverTimeMs || undefined;
    });
  }

  async renew(hold: HoldRef & { readonly request: AcquireRequest }, leaseMs = LONG_MS): Promise<RenewReply> {
    const { mode, owner, holder } = hold.request;
    const request = { ...refOf(hold), leaseMs, mode, owner, holder, timeoutMs: this.#timeoutMs };
    return this.time.until('a renewal to be answered', async () => {
      const [reply] = await this.store.renew([request]);
      return reply?.outcome === 'unknown' ? undefined : reply;
    });
  }

  release({ key, attempt, request }: Hold, how: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    return this.giveBack(attempt, { key, leaseMs: request.leaseMs, job: request.claim?.job, ...how });
  }

  /** Releases whatever an attempt has. */
  giveBack(attempt: string, how: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    const { key } = this;
    const request = { key, attempt, holdAtLeastMs: 0, leaseMs: LONG_MS, ...how };
    return this.time.answer('a release', this.store.release(request, this.#timeoutMs));
  }

  downgrade(hold: HoldRef) {
    return this.store.downgrade(refOf(hold), this.#timeoutMs);
  }

  /** Waits for a message about an attempt. */
  hears(who: string, attempt: string): Promise<WakeUp> {
    return this.time.until(`${who} to hear of it`, () => this.heard.find((one) => one.attempt === attempt)?.wakeUp);
  }

  get #timeoutMs(): number {
    return this.time.deadlineMs / 2;
  }

  #hold(request: AcquireRequest, reply: Granted): Hold {
    const { outcome: _, ...grant } = reply;
    return {
      ...grant,
      request,
      key: request.keys[0]!,
      attempt: request.attempt,
      fencingToken: grant.fencingTokens[0]!,
    };
  }

  /** Gives back what is left of an attempt that is used up, and asks by another. */
  async #anew(request: AcquireRequest): Promise<AcquireRequest> {
    await Promise.all(releasesOfAttempt(request).map((release) => this.giveBack(release.attempt, release)));
    return { ...request, attempt: this.nextAttempt() };
  }
}

const refOf = ({ key, attempt, fencingToken }: HoldRef): HoldRef => ({ key, attempt, fencingToken });
