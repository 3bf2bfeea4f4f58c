import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import { LockStoreError } from '../../core/lock.errors.js';
import { systemRandomness } from '../../core/randomness.js';
import { randomAttempt, releasesOfAttempt } from '../../core/store/attempt-ids.js';
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
  type RenewRequest,
  type WakeUp,
} from '../../core/store/lock-store.js';
import { type FullLockStore } from '../../core/store/capabilities.js';
import { type ManualClock } from '../manual-clock.js';

/** Fails with the expectation in words, and with the actual value. */
export function promised(isKept: unknown, expectation: string, got?: unknown): asserts isKept {
  const instead = got === undefined ? '' : `, got ${inspect(got, { breakLength: Infinity })}`;
  assert.ok(isKept, `Expected ${expectation}${instead}.`);
}

export function same(actual: unknown, expected: unknown, what: string): void {
  assert.deepEqual(actual, expected, `Expected ${what} to be ${inspect(expected)}, got ${inspect(actual)}.`);
}

const STEP_MS = 10;

/** The time of a case: that of the process, or of a clock that the case moves. */
export class CaseTime {
  constructor(
    private readonly clock: ManualClock | undefined,
    /** How long a case waits for a promise to be kept, in milliseconds. */
    readonly deadlineMs: number,
  ) {}

  now(): number {
    return this.clock ? this.clock.now() : performance.now();
  }

  async pass(ms: number): Promise<void> {
    if (this.clock) await this.clock.advance(ms);
    else await sleep(ms);
  }

  /** Checks repeatedly until there is a value; fails at the deadline. */
  async until<T>(expectation: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
    const deadline = this.now() + this.deadlineMs;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      promised(this.now() < deadline, `${expectation} within ${this.deadlineMs} ms`);
      await this.pass(STEP_MS);
    }
  }

  /** Returns the value of a promise; fails when it stays pending. */
  async answer<T>(expectation: string, promise: Promise<T>): Promise<T> {
    await this.settles(expectation, promise);
    return promise;
  }

  /** Returns the result of a promise; fails when it stays pending, by the time of the process: the store may hang. */
  async settles<T>(expectation: string, promise: Promise<T>): Promise<PromiseSettledResult<T>> {
    const giveUp = new AbortController();
    const late = sleep(this.deadlineMs, null, { signal: giveUp.signal }).catch(() => null);
    const result = await Promise.race([Promise.allSettled([promise]), late]);
    giveUp.abort();
    promised(result, `${expectation} to settle within ${this.deadlineMs} ms`);
    return result[0];
  }
}

/** A lease that does not end while a case runs. */
export const LONG_MS = 30_000;
/** A lease that ends while a case runs. */
export const SHORT_MS = 400;
export const HOLDER = 'host-1:4711 Orders.pay';

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;
type Busy = Extract<AcquireReply, { outcome: 'busy' }>;
type Refused = Extract<AcquireReply, { outcome: 'refused' }>;

/** The fields of a request; the default is a write lock of the case's key, by a new attempt that does not wait. */
export type RequestFields = Partial<AcquireRequest>;

/** A hold of the first key of a request. */
export interface Hold extends HoldRef, Omit<Granted, 'outcome'> {
  readonly request: AcquireRequest;
}

/** One client of the server under test, with its wake-ups. */
export class Client {
  readonly heard: { readonly attempt: string; readonly wakeUp: WakeUp }[] = [];
  listenings = 0;
  /** Attempts that a store of several servers has given back on some of them; on others, they may still have a place. */
  readonly #spent = new Set<string>();

  constructor(
    readonly store: FullLockStore,
    readonly key: string,
    private readonly time: CaseTime,
  ) {
    store.listen({
      onWakeUp: (attempt, wakeUp) => void this.heard.push({ attempt, wakeUp }),
      onListening: () => void (this.listenings += 1),
      onMessagesMissed: () => undefined,
    });
  }

  /** Random: a store may identify released attempts by their last characters, which may be equal for those of `attemptIds`. */
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
  async acquire(fields: RequestFields) {
    let request = this.requestOf(fields);
    return this.time.until('a final reply', async () => {
      const reply = await this.send(request).catch(unlessRetryable);
      const busy = reply?.outcome === 'busy' ? reply : undefined;
      // Without a reply, some servers may have received a release.
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

  /** Repeats a request, as a waiter does, with the same attempt unless the store reports it as spent. */
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

  /** Checks that a hold is alive: its token renews it. */
  async keeps(hold: Parameters<Client['renew']>[0]): Promise<void> {
    const reply = await this.renew(hold);
    promised(reply.outcome === 'renewed', `the hold of ${hold.key} to be alive, and to be renewed`, reply);
  }

  /** Checks that a hold has ended, and not by an operator. */
  async lost(hold: Parameters<Client['renew']>[0]): Promise<void> {
    const reply = await this.renew(hold);
    promised(reply.outcome === 'lost' && !reply.revoked, 'a renewal to be lost', reply);
  }

  async renew(
    hold: HoldRef & { readonly request: AcquireRequest },
    leaseMs = LONG_MS,
    how: Partial<RenewRequest> = {},
  ): Promise<RenewReply> {
    const { mode, owner, holder } = hold.request;
    const request = { ...refOf(hold), leaseMs, mode, owner, holder, timeoutMs: this.#timeoutMs, ...how };
    return this.time.until('a renewal to be answered', async () => {
      const [reply] = await this.store.renew([request]);
      return reply?.outcome === 'unknown' ? undefined : reply;
    });
  }

  release({ key, attempt, request }: Hold, how: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    return this.giveBack(attempt, { key, leaseMs: request.leaseMs, job: request.claim?.job, ...how });
  }

  /** Releases a hold, which must be alive. */
  async ends(hold: Hold): Promise<void> {
    const { outcome } = await this.release(hold);
    promised(outcome === 'released', 'the hold to be alive, and to be released', outcome);
  }

  /** Releases a hold or a place in the queue. */
  giveBack(attempt: string, how: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    const { key } = this;
    const request = { key, attempt, holdAtLeastMs: 0, leaseMs: LONG_MS, ...how };
    return this.time.answer('a release', this.store.release(request, this.#timeoutMs));
  }

  /** Makes a hold a read hold, by a renewal that does not change the lease. */
  downgrade(hold: HoldRef & { readonly request: AcquireRequest }): Promise<RenewReply> {
    return this.renew(hold, 0, { mode: 'read' });
  }

  /** Asks to adopt a hold; by default, with a new attempt. */
  adopt({ key, attempt: from, fencingToken }: HoldRef, how: Partial<AdoptRequest> = {}): Promise<AdoptReply> {
    const usual = { attempt: how.attempt ?? this.nextAttempt(), holder: HOLDER, leaseMs: LONG_MS, unanswered: false };
    const request = { key, from, fencingToken, ...usual, ...how };
    return this.time.answer('an adoption', this.store.adopt(request, this.#timeoutMs));
  }

  async adopted(what: string, hold: Hold, how: Partial<AdoptRequest> = {}): Promise<Hold> {
    const attempt = how.attempt ?? this.nextAttempt();
    const reply = await this.adopt(hold, { ...how, attempt });
    promised(reply.outcome === 'adopted', `${what} to be adopted`, reply);
    return { ...hold, attempt, remainingMs: reply.remainingMs, request: { ...hold.request, attempt } };
  }

  hears(who: string, attempt: string): Promise<WakeUp> {
    return this.time.until(
      `${who} to receive a message`,
      () => this.heard.find((one) => one.attempt === attempt)?.wakeUp,
    );
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

  /** Gives back the rest of a spent attempt, and takes another one. */
  async #withNewAttempt(request: AcquireRequest): Promise<AcquireRequest> {
    const giveBack = (release: ReleaseRequest) => this.giveBack(release.attempt, release).catch(unlessRetryable);
    await Promise.all(releasesOfAttempt(request).map(giveBack));
    return { ...request, attempt: this.nextAttempt() };
  }
}

/** Of several servers, too few may have answered in time, or may know the attempt. */
function unlessRetryable(error: unknown): undefined {
  if (!(error instanceof LockStoreError) || !error.retryable) throw error;
}

const refOf = ({ key, attempt, fencingToken }: HoldRef): HoldRef => ({ key, attempt, fencingToken });

/** The promises of a store beyond exclusion; by default all of them. */
export interface LockStoreSupport {
  /** Waiters are served in the order in which they arrived. @default true */
  readonly queue?: boolean;
  /** At most `permits` readers share a lock. @default true */
  readonly permits?: boolean;
  /** One acquire can name several keys. @default true */
  readonly severalKeys?: boolean;
  /** Holds change hands (`adopt`). @default true */
  readonly adoption?: boolean;
  /** Fires of jobs are granted once. @default true */
  readonly claims?: boolean;
  /**
   * An acquire that is sent again after its grant returns that grant; several servers may return a greater token.
   * @default true
   */
  readonly sameGrant?: boolean;
  /**
   * A lease may be shorter than the time that its grant takes; several servers may be asked more than once.
   * @default true
   */
  readonly shortLeases?: boolean;
  /** The store sends wake-ups to waiters and holders, through `listen`. @default true */
  readonly wakeUps?: boolean;
  /** The store has a `history`. @default true */
  readonly history?: boolean;
}

/** The store under test. */
export interface LockStoreContractOptions {
  /**
   * Opens another client of the same server; the case closes it. All keys of one case begin with the same text up to a
   * colon, so that a store can place them together.
   */
  readonly open: () => LockStore | Promise<LockStore>;
  /** The clock of the server, if a test can move it: then no case has to wait. */
  readonly clock?: ManualClock;
  readonly supports?: LockStoreSupport;
  /** The maximum difference of two times of a store of several servers, in milliseconds. @default 0 */
  readonly spreadMs?: number;
  /** How long a case waits for a promise to be kept, in milliseconds; less than the limit of the test runner. @default 4_000 */
  readonly deadlineMs?: number;
}

export class Scene {
  /** The prefix of the keys of this case, up to the colon. */
  readonly prefix = `contract-${randomUUID()}:`;
  readonly key = `${this.prefix}a`;
  readonly time: CaseTime;
  readonly spreadMs: number;
  readonly #stores: FullLockStore[] = [];

  constructor(private readonly options: LockStoreContractOptions) {
    this.time = new CaseTime(options.clock, options.deadlineMs ?? 4_000);
    this.spreadMs = options.spreadMs ?? 0;
  }

  async client(): Promise<Client> {
    const client = await this.silentClient();
    client.store.open?.();
    if (this.supports('wakeUps')) await this.time.until('`onListening`', () => client.listenings > 0 || undefined);
    return client;
  }

  supports(need: keyof LockStoreSupport): boolean {
    return this.options.supports?.[need] ?? true;
  }

  /** A client on which `open` was not called. */
  async silentClient(): Promise<Client> {
    // Cases that need a missing capability are left out, or fail at its first call.
    const store = (await this.options.open()) as FullLockStore;
    this.#stores.push(store);
    return new Client(store, this.key, this.time);
  }

  /** Waits until the lock is free. */
  async leaseEnds({ store }: Client): Promise<void> {
    await this.time.until('the lease to end', async () => (await store.inspect(this.key)).mode === 'free' || undefined);
  }

  /** Waits until the queue of the lock is empty; one of several servers may learn of it late. */
  async nobodyWaits({ store }: Client): Promise<void> {
    await this.time.until(
      'the queue to be empty',
      async () => (await store.inspect(this.key)).waiters === 0 || undefined,
    );
  }

  /** Two keys, in the order of the store; each name gives two others. */
  twoKeys({ store }: Client, name = ''): [string, string] {
    const groups = store.groups([`${this.prefix}${name}a`, `${this.prefix}${name}b`]);
    same(groups.length, 1, 'the number of groups of two keys that one acquire may name');
    return groups[0] as [string, string];
  }

  /** Checks that a lock did not become free before a moment, by the time of the reply that found it free. */
  notBefore(what: string, momentMs: number, { serverTimeMs }: { readonly serverTimeMs: number }): void {
    const earlyMs = momentMs - serverTimeMs;
    promised(earlyMs <= this.spreadMs, `${what} not to end before its time`, `${earlyMs} ms too early`);
  }

  sameTime(actual: number, expected: number, what: string): void {
    promised(Math.abs(actual - expected) <= this.spreadMs, `${what} to be ${expected}`, actual);
  }

  /** Checks the number of holds after a release; one of several servers may report a hold that has ended. */
  holdsLeft({ holds }: ReleaseReply, expected: number): void {
    this.#counted('the number of holds that remain', holds, expected);
  }

  /** Checks the report of a store after a change; one of several servers may learn of the change late. */
  async reports<T>(what: string, expected: T, look: () => Promise<T>): Promise<void> {
    if (this.spreadMs === 0) return same(await look(), expected, what);
    await this.time.until(`${what} to be ${inspect(expected)}`, async () => {
      return isDeepStrictEqual(await look(), expected) || undefined;
    });
  }

  /** Checks the last fencing token of a lock; one of several servers may report a greater one. */
  lastToken(actual: number, expected: number): void {
    this.#counted('the last fencing token', actual, expected);
  }

  #counted(what: string, actual: number, expected: number): void {
    const isKept = this.spreadMs > 0 ? actual >= expected : actual === expected;
    promised(isKept, `${what} to be ${expected}`, actual);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#stores.map((store) => store.close()));
  }
}

/** One promise of the port `LockStore`, with a check by three clients that listen. */
export interface PortCase {
  /** The promise. */
  readonly name: string;
  readonly needs: readonly (keyof LockStoreSupport)[];
  readonly run: (scene: Scene, a: Client, b: Client, c: Client) => Promise<void>;
}

export const it = (name: string, run: PortCase['run']): PortCase => ({ name, needs: [], run });

/** Leaves the cases out for a store that lacks one of these capabilities. */
export const needing =
  (needs: PortCase['needs']) =>
  (cases: readonly PortCase[]): readonly PortCase[] =>
    cases.map((one) => ({ ...one, needs: [...needs, ...one.needs] }));
