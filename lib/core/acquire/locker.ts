import { AsyncLocalStorage } from 'node:async_hooks';
import { onAbort } from '../abort-listener.js';
import { AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { shutdownError, unansweredError, waitsForItselfError } from '../error-texts.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { FreshMap } from '../fresh-map.js';
import { type Grant } from '../hold/grant.js';
import { HandleRegistry } from '../hold/handle.js';
import { Holds } from '../hold/holds.js';
import { Releaser } from '../hold/releaser.js';
import { type StoreHold } from '../hold/store-hold.js';
import { LockEvents, type LockLabel, NO_LABEL } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter } from '../reporter.js';
import { findCurrentHold } from '../reentry/context.js';
import { type Runtime } from '../runtime.js';
import { attemptIds } from '../store/attempt-ids.js';
import { type FireClaim } from '../store/fires.js';
import { checkKeyOf, hasFires, hasOperators, hasPermits, storeWith } from '../store/capabilities.js';
import { HolderTexts } from '../store/holder-text.js';
import { type LockStore, type WakeUp, type WakeUpListener } from '../store/lock-store.js';
import { type LockState } from '../store/lock-state.js';
import { TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS, RELEASE_PATIENCE_MS } from '../timing.js';
import { type Adoption, Adoptions } from './adoptions.js';
import { type WokenAcquisition } from './acquire-call.js';
import { FreeWatch, type WaitLimits } from './free-watch.js';
import { LocalQueues } from './local-queue.js';
import { checked, failedEvent, forKeys, type LockRequest } from './request.js';

/** What the calls of a module acquire. */
export type Acquired = StoreHold | CompositeHold;

/** Acquires the locks of a module from its store. */
export class Locker implements WakeUpListener {
  readonly clock: Clock;
  readonly events: LockEvents;
  readonly timers: TimerQueue;
  readonly handles: HandleRegistry;
  readonly awaited: AwaitedCalls;
  readonly holds: Holds;
  /** What the module closes at its end: campaigns of leaders, delays of jobs, calls that wait for the result of another call. */
  readonly closing = new Set<{ close(): unknown }>();
  /** By their present attempts. */
  readonly #acquisitions = new FreshMap<string, WokenAcquisition>();
  readonly #adoptions: Adoptions;
  readonly #freeWatch: FreeWatch;
  readonly #queues: LocalQueues;
  readonly #releaser: Releaser;
  readonly #holderTexts: HolderTexts;
  readonly #thrown: LogLimit;
  /** A message of the store may arrive in the async context of any call, but does not belong to that call. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  protected isClosing = false;

  constructor(
    readonly runtime: Runtime,
    private readonly store: LockStore,
    readonly reporter: Reporter,
    /** The name of this process in texts: `host:pid`. */
    readonly instance: string,
  ) {
    const { clock, random, watchGarbage } = runtime;
    this.clock = clock;
    this.timers = new TimerQueue(clock);
    this.#thrown = new LogLimit(clock, this.timers, 'listeners threw', (line) => reporter.error(line));
    this.events = new LockEvents({ error: (line) => this.#thrown.add(line) });
    this.handles = new HandleRegistry(watchGarbage, this.timers, reporter);
    this.awaited = new AwaitedCalls(clock);
    const { timers, events, awaited } = this;
    const shared = { clock, random, timers, store, reporter, events, awaited };
    const releaser = (this.#releaser = new Releaser(shared));
    this.holds = new Holds({
      ...shared,
      releaser,
      handOn: (hold) => this.#queues.handOn(hold),
      onEnded: (hold) => this.#queues.onEnded(hold),
    });
    this.#adoptions = new Adoptions({ ...shared, releaser, closing: this.closing });
    const context = {
      ...shared,
      releaser,
      holds: this.holds,
      acquisitions: this.#acquisitions,
      nextId: attemptIds(store.clientId, random),
    };
    this.#queues = new LocalQueues(context, store.reservesTokens === true);
    this.#freeWatch = new FreeWatch(shared);
    this.#holderTexts = new HolderTexts(instance);
    store.listen(this);
  }

  /** How many locks, acquisitions, pending releases and timers exist now. */
  get live(): { locks: number; waiting: number; releasing: number; timers: number } {
    return {
      locks: this.holds.size,
      waiting: this.#acquisitions.size + this.#queues.waiting + this.#freeWatch.size,
      releasing: this.#releaser.size,
      timers: this.timers.size,
    };
  }

  /** Adds the calls that wait in this process without a place in the store. */
  withWaiters(state: LockState): LockState {
    return { ...state, waiters: state.waiters + this.#queues.waitingFor(state.key) };
  }

  /**
   * Makes the request of a caller, and checks its keys. `waitMs` counts from now on.
   * @throws LockKeyError, LockConfigurationError
   */
  request(
    keys: readonly string[],
    options: ResolvedLockOptions,
    label: LockLabel = NO_LABEL,
    claim?: FireClaim,
  ): LockRequest {
    // A key that is held was checked when it was acquired.
    for (const key of keys) if (!findCurrentHold(key, this.holds)) checkKeyOf(this.store, key);
    if (options.permits > 0 || options.take > 1) storeWith(this.store, hasPermits, '`permits`');
    if (claim) storeWith(this.store, hasFires, '`oncePer`');
    const distinct = keys.length === 1 ? keys : [...new Set(keys)];
    const name = distinct.length === 1 ? distinct[0]! : distinct.join(', ');
    const holder = this.#holderTexts.of(label.where, options.waitMs, options.note);
    return checked({ keys: distinct, name, options, label, holder, claim, startedAt: this.clock.now() });
  }

  /**
   * Acquires all keys or none, and keeps the process alive meanwhile. The order is the same for every client, so two calls
   * cannot block each other. Resolves with the result of `toResult`, which saves the promise that `then` would need.
   */
  acquire(request: LockRequest): Promise<Acquired>;
  acquire<T>(request: LockRequest, toResult: (hold: Acquired) => T): Promise<T>;
  acquire(request: LockRequest, toResult: (hold: Acquired) => unknown = itself): Promise<unknown> {
    if (request.keys.length > 1) return this.awaited.keepAlive(this.#acquireSeveral(request)).then(toResult);
    return this.#acquireGroup(request, toResult);
  }

  /** Acquires keys for which the store needs one command, in its order. */
  #acquireGroup<T>(request: LockRequest, toResult: (hold: StoreHold) => T): Promise<T> {
    try {
      if (this.isClosing) throw shutdownError();
      request.options.signal?.throwIfAborted();
      this.awaited.begin();
      return this.#queues.begin(request, toResult);
    } catch (error) {
      this.events.emit('acquireFailed', () => failedEvent(request, this.clock.now(), error, false));
      return Promise.reject(error);
    }
  }

  async #acquireSeveral(request: LockRequest): Promise<Acquired> {
    const { keys, options, startedAt } = request;
    const groups = this.store.groups?.(keys) ?? keys.toSorted().map((key) => [key]);
    if (groups.length === 1) return this.#acquireGroup({ ...request, keys: groups[0]!, callerKeys: keys }, itself);
    const parts: StoreHold[] = [];
    const part = request.part ?? { isGranted: false };
    try {
      // One after the other, in the order of the store.
      for (const group of groups) parts.push(await this.#acquireGroup(forKeys(request, group, part), itself));
      await this.#prove(parts, request);
    } catch (error) {
      // Within the time limit of the whole call, even if Redis is unreachable.
      const patienceMs = Math.min(startedAt + options.waitMs - this.clock.now(), 0) + RELEASE_PATIENCE_MS;
      await this.timers.withTimeout(patienceMs, Promise.all(parts.map((hold) => hold.release())));
      throw error;
    }
    // A call that is itself a part waits for further keys, or has outer locks that may be lost.
    if (!request.part) part.isGranted = true;
    return new CompositeHold(keys, parts);
  }

  /**
   * Ensures that holds which were acquired one after the other are all proven. If the machine slept meanwhile, a lease is over by
   * the wall clock: then the store is asked once more, within the time limit of the call.
   */
  async #prove(holds: readonly StoreHold[], { options: { signal, waitMs }, startedAt }: LockRequest): Promise<void> {
    const { clock, timers } = this;
    const unproven = holds.filter(({ provenMs }) => provenMs === 0);
    for (const hold of unproven) if (!hold.request.options.renew) hold.expire();
    throwIfLost(holds);
    if (unproven.length === 0) return;
    const answers = Promise.allSettled(unproven.map((hold) => hold.extendBy(hold.request.options.leaseMs)));
    let stopListening: (() => void) | undefined;
    const aborted = new Promise((resolve) => (stopListening = signal && onAbort(signal, () => resolve(undefined))));
    const limitMs = startedAt + waitMs + FIRST_ANSWER_MS - clock.now();
    await timers.withTimeout(limitMs, Promise.race([answers, aborted]));
    stopListening?.();
    signal?.throwIfAborted();
    throwIfLost(holds);
    const silent = holds.find(({ provenMs }) => provenMs === 0);
    if (silent) throw unansweredError(silent, Math.round(clock.now() - startedAt), silent.renewError);
  }

  /** Adopts a hold that another process has transferred. @throws as `Adoptions.adopt`, LockShutdownError */
  async adopt(given: Omit<Adoption, 'holder'>): Promise<StoreHold> {
    if (this.isClosing) throw shutdownError();
    const add = (grant: Grant): StoreHold => {
      const hold = this.holds.add(grant);
      this.events.emit('adopted', () => ({ ...hold.event, from: given.holds[0]!.attempt }));
      return hold;
    };
    return this.awaited.keepAlive(this.#adoptions.adopt({ ...given, holder: this.instance }, add));
  }

  /**
   * Waits until all keys are free, without taking them.
   * @throws LockKeyError and LockReentryError at once; what `FreeWatch.wait` throws
   */
  waitUntilFree(keys: readonly string[], limits: WaitLimits): Promise<void> {
    const store = storeWith(this.store, hasOperators, '`waitUntilFree()`');
    for (const key of keys) {
      checkKeyOf(this.store, key);
      const outer = findCurrentHold(key, this.holds);
      if (outer) throw waitsForItselfError({ key, mode: outer.mode });
    }
    return this.#inOwnContext(() => this.#freeWatch.wait(store, [...new Set(keys)], limits));
  }

  onWakeUp(attempt: string, wakeUp: WakeUp): void {
    this.#inOwnContext(() => {
      const acquisition = this.#acquisitions.get(attempt);
      if (acquisition) acquisition.onWakeUp(wakeUp);
      else if (wakeUp.kind === 'revoked') this.holds.revoke(attempt);
    });
  }

  onListening(): void {
    this.#inOwnContext(() => {
      for (const acquisition of this.#acquisitions.values()) acquisition.onWakeUp({ kind: 'wake' });
    });
  }

  onMessagesMissed(): void {
    this.onListening();
    this.#queues.onMessagesMissed();
    this.holds.renewAll();
  }

  /** Closes `one` when the module closes, or at once if the module is closing. */
  closeWithModule(one: { close(): unknown }): void {
    if (this.isClosing) void one.close();
    else this.closing.add(one);
  }

  /**
   * Shuts down: acquires no more locks, cancels waiting calls with a `LockShutdownError`, and gives holders `drainMs` to
   * finish. Then their signals are aborted and their locks released.
   */
  async close(drainMs: number): Promise<void> {
    this.isClosing = true;
    for (const one of this.closing) void one.close();
    this.#queues.close(shutdownError());
    this.#freeWatch.close(shutdownError);
    for (const acquisition of this.#acquisitions.values()) acquisition.close(shutdownError());
    await this.holds.close(drainMs);
    this.#thrown.flush();
    this.timers.close();
  }
}

const itself = <H>(hold: H): H => hold;
