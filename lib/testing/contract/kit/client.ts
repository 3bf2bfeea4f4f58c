import { randomAttempt, releasesOfAttempt } from '../../../core/store/attempt-ids.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
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
import { systemRandomness } from '../../../core/randomness.js';

/** A lease that does not end while a case runs. */
export const LONG_MS = 30_000;
/** A lease that ends while a case runs. */
export const SHORT_MS = 400;
/** The text that describes the holder, for people. */
export const HOLDER = 'host-1:4711 Orders.pay';

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;
type Busy = Extract<AcquireReply, { outcome: 'busy' }>;
type Refused = Extract<AcquireReply, { outcome: 'refused' }>;

/** What a request names; by default it is for a write lock of the case's key, by a new attempt that does not wait. */
export type RequestFields = Partial<AcquireRequest>;

/** A reply that the case can judge, and the request that got it. */
interface FinalReply {
  readonly request: AcquireRequest;
  readonly reply: Granted | Busy | Refused;
}

/** A hold of the first key of a request. */
export interface Hold extends HoldRef, Omit<Granted, 'outcome'> {
  readonly request: AcquireRequest;
}

/** One client of the server under test, and the wake-ups that it heard. */
export class Client {
  readonly heard: { readonly attempt: string; readonly wakeUp: WakeUp }[] = [];
  listenings = 0;
  /** Attempts that a store of several servers has given back on some of them; on others they may still have a place. */
  readonly #spent = new Set<string>();

  constructor(
    readonly store: LockStore,
    readonly key: string,
    private readonly time: CaseTime,
  ) {
    store.listen({
      onWakeUp: (attempt, wakeUp) => void this.heard.push({ attempt, wakeUp }),
      onListening: () => void (this.listenings += 1),
      onMessagesMissed: () => undefined,
    });
  }

  /** Random: a store may know released attempts by their last characters, in which those of `attemptIds` may agree. */
  nextAttempt(): string {
    return randomAttempt(this.store.clientId, systemRandomness);
  }

  requestOf(fields: RequestFields): AcquireRequest {
    const { key } = this;
    const usual = { keys: [key], attempt: fields.attempt ?? this.nextAttempt(), owner: undefined, holder: HOLDER };
    return { ...usual, mode: 'write', leaseMs: LONG_MS, waiterLeaseMs: 0, fair: true, permits: 0, ...fields };
  }

  send(request: AcquireRequest): Promise<AcquireReply> {
    const reply = this.store.acquire(request, this.#timeoutMs, () => undefined);
    return this.time.answer('an acquire', reply);
  }

  /** Sends a request until the reply is final; a store of several servers may need more than one. */
  async acquire(fields: RequestFields): Promise<FinalReply> {
    let request = this.requestOf(fields);
    return this.time.until('a final reply', async () => {
      const reply = await this.send(request).catch((error: unknown) => {
        if (!(error instanceof LockStoreError) || !error.retryable) throw error;
        return undefined;
      });
      const busy = reply?.outcome === 'busy' ? reply : undefined;
      // Without a reply, some servers may have been told to give it back.
      if (!reply || reply.outcome === 'given-back' || busy?.isSpent) this.#spent.add(request.attempt);
      if (reply && reply.outcome !== 'given-back' && !busy?.isSplit) return { request, reply };
      if (this.#spent.has(request.attempt)) request = await this.#withNewAttempt(request);
      await this.time.pass(busy?.retryMs ?? 0);
      return undefined;
    });
  }

  async granted(who: string, fields: RequestFields = {}): Promise<Hold> {
    const { request, reply } = await this.acquire(fields);
    promised(reply.outcome === 'granted', `${who} to be granted`, reply);
    return this.#hold(request, reply);
  }

  async busy(who: string, fields: RequestFields = {}): Promise<Busy & { readonly request: AcquireRequest }> {
    const { request, reply } = await this.acquire(fields);
    promised(reply.outcome === 'busy', `${who} to be busy`, reply);
    return { ...reply, request };
  }

  /** As `busy`, but joins the queue. */
  waits(who: string, fields: RequestFields = {}) {
    return this.busy(who, { waiterLeaseMs: LONG_MS, ...fields });
  }

  async refused(who: string, reason: Refused['reason'], fields: RequestFields): Promise<Refused> {
    const { reply } = await this.acquire(fields);
    const isRefused = reply.outcome === 'refused' && reply.reason === reason;
    promised(isRefused, `${who} to be refused as \`${reason}\``, reply);
    return reply;
  }

  /** Sends a request again and again, as a waiter does, with the same attempt unless the store says that it is spent. */
  async eventuallyGranted(who: string, fields: RequestFields = {}): Promise<Hold> {
    let request = this.requestOf(fields);
    return this.time.until(`${who} to be granted`, async () => {
      if (this.#spent.has(request.attempt)) request = await this.#withNewAttempt(request);
      const { reply, ...sent } = await this.acquire(request);
      promised(reply.outcome !== 'refused', `${who} to be granted`, reply);
      request = sent.request;
      return reply.outcome === 'granted' ? this.#hold(request, reply) : undefined;
    });
  }

  /** Sends requests, which have to be busy, until the clock of the store has reached a time. */
  async busyUntil(serverTimeMs: number, who: string, fields: RequestFields = {}): Promise<void> {
    await this.time.until('the time of the store to pass', async () => {
      return (await this.busy(who, fields)).serverTimeMs >= serverTimeMs || undefined;
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

  /** Releases a hold or a place in the queue. */
  giveBack(attempt: string, how: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    const { key } = this;
    const request = { key, attempt, holdAtLeastMs: 0, leaseMs: LONG_MS, ...how };
    return this.time.answer('a release', this.store.release(request, this.#timeoutMs));
  }

  downgrade(hold: HoldRef) {
    return this.store.downgrade(refOf(hold), this.#timeoutMs);
  }

  /** Asks to go on with a hold; a new attempt unless told otherwise. */
  adopt({ key, attempt: from, fencingToken }: HoldRef, how: Partial<AdoptRequest> = {}): Promise<AdoptReply> {
    const usual = { attempt: how.attempt ?? this.nextAttempt(), holder: HOLDER, leaseMs: LONG_MS, unanswered: false };
    const request = { key, from, fencingToken, ...usual, ...how };
    return this.time.answer('an adoption', this.store.adopt(request, this.#timeoutMs));
  }

  /** Goes on with the hold of another client. */
  async adopted(what: string, hold: Hold, how: Partial<AdoptRequest> = {}): Promise<Hold> {
    const attempt = how.attempt ?? this.nextAttempt();
    const reply = await this.adopt(hold, { ...how, attempt });
    promised(reply.outcome === 'adopted', `${what} to be adopted`, reply);
    return { ...hold, attempt, remainingMs: reply.remainingMs, request: { ...hold.request, attempt } };
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

  /** Gives back what is left of a spent attempt, and takes another one. */
  async #withNewAttempt(request: AcquireRequest): Promise<AcquireRequest> {
    await Promise.all(releasesOfAttempt(request).map((release) => this.giveBack(release.attempt, release)));
    return { ...request, attempt: this.nextAttempt() };
  }
}

const refOf = ({ key, attempt, fencingToken }: HoldRef): HoldRef => ({ key, attempt, fencingToken });
