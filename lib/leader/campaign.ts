import type { Locker } from '../core/acquire/locker.js';
import { onAbort } from '../core/abort-listener.js';
import { shutdownError, steppedDownError, stoppedCampaignError, textWithin } from '../core/error-texts.js';
import type { StoreHold } from '../core/hold/store-hold.js';
import { LockShutdownError } from '../core/lock.errors.js';
import type { DemotionReason, LockEventMap, LockLabel } from '../core/lock.events.js';
import type { ResolvedLockOptions } from '../core/lock.options.js';
import type { LogLimit } from '../core/log-limit.js';
import type { Randomness } from '../core/randomness.js';
import { durationText, printable } from '../core/printable.js';
import { messageOf, withoutRepeats } from '../core/reporter.js';
import { ANSWERED_WITHIN_MS, campaignRetryMs, OTHERS_FIRST_MS } from '../core/timing.js';
import type { LeadOptions, LeaderHooks, LeaderTerm, Leadership } from './leadership.js';
import { findCurrentHold, runHolding } from '../core/reentry/context.js';
import { isAwaitable, withResult } from '../core/reentry/run.js';

export interface CampaignParts {
  readonly locker: Locker;
  readonly random: Randomness;
  readonly log: LogLimit;
  readonly drainMs: number;
  /** The hooks of the application run outside the contexts of callers. */
  readonly inOwnContext: <T>(work: () => T) => T;
}

export interface CampaignTerms {
  readonly key: string;
  readonly label: LockLabel;
  /** The options of the lock; its signal is that of the campaign. */
  readonly lock: Omit<ResolvedLockOptions, 'signal'>;
  readonly hooks: LeaderHooks;
}

/** After these reasons, another instance should lead. */
const OTHERS_GO_FIRST: readonly (DemotionReason | null)[] = ['resigned', 'revoked'];

/** Waits for the lock of a leader, leads until the term is over, and campaigns again when the work of the term has ended. */
export class Campaign implements Leadership {
  /** The present term, until its lock is released or lost. */
  #term: Term | null = null;
  /** Resolves when the lock of the last term is released. */
  #left: Promise<void> = Promise.resolve();
  #reason: DemotionReason | null = null;
  readonly #stopping = new AbortController();
  #running: Promise<void> | null = null;
  #stopListening: (() => void) | null = null;
  readonly #waiters = new Set<{ resolve(term: LeaderTerm): void; reject(error: unknown): void }>();
  readonly #sayOnce: (line: string) => void;

  constructor(
    private readonly terms: CampaignTerms,
    private readonly parts: CampaignParts,
  ) {
    this.#sayOnce = withoutRepeats((line) => parts.log.add(line));
  }

  get key(): string {
    return this.terms.key;
  }

  get term(): LeaderTerm | undefined {
    return this.isLeader() ? this.#term!.view : undefined;
  }

  get isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  isLeader(): boolean {
    return this.#term?.isProven ?? false;
  }

  start({ signal }: Pick<LeadOptions, 'signal'> = {}): this {
    if (this.isStopped) return this;
    if (signal) this.#stopListening = onAbort(signal, () => void this.#stop('stopped', signal.reason));
    this.#running ??= this.parts.inOwnContext(() => this.#run());
    return this;
  }

  waitUntilLeader(): Promise<LeaderTerm> {
    const { term } = this;
    if (term) return Promise.resolve(term);
    if (this.#stopping.signal.aborted) return Promise.reject(this.#stopping.signal.reason);
    const elected = new Promise<LeaderTerm>((resolve, reject) => void this.#waiters.add({ resolve, reject }));
    return this.parts.locker.awaited.keepAlive(elected);
  }

  async resign(): Promise<void> {
    if (this.#term) await this.#stepDown(this.#term, 'resigned', steppedDownError(this.key, 'resigned'));
  }

  stop(): Promise<void> {
    return this.#stop('stopped', stoppedCampaignError(this.key));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** The app shuts down. */
  close(): Promise<void> {
    return this.#stop('shutdown', shutdownError());
  }

  /** Runs a call of a scheduled method if this instance leads; else reports that it was skipped. */
  async runCall(where: string, call: () => unknown): Promise<unknown> {
    const term = this.#term;
    if (term?.isProven) return term.runCall(call);
    const { key, label } = this.terms;
    const event = {
      key,
      keys: [key],
      template: label.template,
      mode: 'write',
      where,
      note: undefined,
      reason: 'not-leader',
    } as const;
    this.parts.locker.events.emit('skipped', () => event);
    return undefined;
  }

  async #stop(reason: 'stopped' | 'shutdown', error: unknown): Promise<void> {
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort(error);
      this.#stopListening?.();
      for (const waiter of this.#waiters) waiter.reject(error);
      this.#waiters.clear();
      this.parts.locker.closing.delete(this);
    }
    if (this.#term) {
      const told = reason === 'stopped' ? steppedDownError(this.key, 'stopped') : shutdownError();
      await this.#stepDown(this.#term, reason, told);
    } else await this.parts.locker.awaited.keepAlive(this.#running ?? Promise.resolve());
  }

  /** The work of a term may call this, and must not wait for its own end. */
  async #stepDown(term: Term, reason: DemotionReason, error: Error): Promise<void> {
    const { isCaller } = term;
    this.#demote(term, reason, error);
    if (!isCaller) await this.parts.locker.awaited.keepAlive(this.#left);
  }

  /** Logs once the holder for which it waits: after a restart within its lease, a leader waits for its own earlier lease. */
  readonly #onWaiting = ({ key, mode, holder }: LockEventMap['waiting']): void => {
    if (key !== this.key || mode !== 'write' || holder === undefined) return;
    const { locker } = this.parts;
    const { reporter, instance } = locker;
    locker.events.off('waiting', this.#onWaiting);
    const isNamesake = holder.split(' ', 1)[0] === instance;
    const by = isNamesake ? `${holder}, this process or an earlier one with the same name` : holder;
    const text = `The campaign for "${printable(key)}" waits: the lock is held by ${by}. `;
    const until = `When that process has ended, its lease is over after at most ${durationText(this.terms.lock.leaseMs)}.`;
    // Another leading instance is the normal state.
    if (isNamesake) reporter.warn(text + until);
    else reporter.debug(text + until);
  };

  async #run(): Promise<void> {
    const { random, locker } = this.parts;
    let failures = 0;
    locker.events.on('waiting', this.#onWaiting);
    while (!this.#stopping.signal.aborted) {
      const since = locker.clock.now();
      const hold = await this.#win();
      locker.events.off('waiting', this.#onWaiting);
      if (hold || locker.clock.now() - since > ANSWERED_WITHIN_MS) failures = 0;
      if (!hold) failures += 1;
      if (hold) await this.#lead(hold);
      if (failures > 0) await this.#wait(campaignRetryMs(failures, random));
      else if (OTHERS_GO_FIRST.includes(this.#reason)) await this.#wait(OTHERS_FIRST_MS);
    }
  }

  /** Resolves with the lock of the leader, without a time limit; null if it failed or was stopped. */
  async #win(): Promise<StoreHold | null> {
    const { locker } = this.parts;
    const { key, lock, label } = this.terms;
    const { signal } = this.#stopping;
    try {
      // The hold of one key is that of the store.
      return await locker.acquire(locker.request([key], { ...lock, signal }, label), (hold) => hold as StoreHold);
    } catch (error) {
      if (error instanceof LockShutdownError) void this.close();
      else if (!signal.aborted) {
        this.#sayOnce(`The campaign for "${key}" failed, and is tried again: ${textWithin(error, key)}`);
      }
      return null;
    }
  }

  /** Leads until the term is over, the lock is released, and the work has ended. */
  async #lead(hold: StoreHold): Promise<void> {
    const { locker, inOwnContext } = this.parts;
    this.#reason = hold.lost?.reason ?? null;
    if (this.#stopping.signal.aborted || hold.lost) return giveUp(hold);
    const term = (this.#term = new Term(hold, new Date(locker.clock.wallNow())));
    let onOver!: () => void;
    const over = new Promise<void>((resolve) => (onOver = resolve));
    term.view.signal.addEventListener('abort', onOver, { once: true });
    hold.onLost((error) => inOwnContext(() => this.#demote(term, error.reason, error)));
    // The work may release the lock: `currentLock()` returns it.
    const onReleased = () => this.#demote(term, 'resigned', steppedDownError(this.key, 'resigned'));
    hold.tracker = { forget: () => void (hold.isReleased && onReleased()) };
    this.#left = over.then(() => this.#leave(term));
    locker.events.emit('elected', () => hold.event);
    for (const waiter of this.#waiters) waiter.resolve(term.view);
    this.#waiters.clear();
    // A listener may have ended the term.
    if (!term.isOver) this.#callHook(term, 'onElected', [term.view]);
    await this.#left;
    await this.#workEnded(term);
  }

  #demote(term: Term, reason: DemotionReason, error: Error): void {
    if (term.isOver) return;
    const { locker, inOwnContext } = this.parts;
    this.#reason = reason;
    inOwnContext(() => {
      term.end(error);
      this.#callHook(term, 'onDemoted', [term.view, reason]);
      const { event, heldMs } = term.hold;
      locker.events.emit('demoted', () => ({ ...event, heldMs, reason }));
    });
  }

  /** Keeps the lock until the work of the term has ended or released it, but no longer than `drainMs`. */
  async #leave(term: Term): Promise<void> {
    const { locker, drainMs } = this.parts;
    const { hold } = term;
    const gone = new Promise<void>((resolve) => (hold.tracker = { forget: resolve }));
    if (!hold.lost && !hold.isReleased)
      await locker.timers.withTimeout(drainMs, Promise.race([term.workEnded(), gone]));
    if (term.hasWork && !hold.isReleased) hold.lose('shutdown');
    await giveUp(hold);
    this.#term = null;
  }

  /** Others may lead meanwhile: an instance must not be elected while the work of its last term continues. */
  async #workEnded(term: Term): Promise<void> {
    const { locker, log } = this.parts;
    const line = `The work of a term of "${this.key}" continues after its end: this instance campaigns again when that work has ended.`;
    const late = locker.timers.schedule(locker.clock.now() + this.terms.lock.leaseMs, () => log.add(line));
    await this.#wait(Infinity, term.workEnded());
    late.cancel();
  }

  #callHook<Name extends keyof LeaderHooks>(
    term: Term,
    name: Name,
    args: Parameters<NonNullable<LeaderHooks[Name]>>,
  ): void {
    const { hooks } = this.terms;
    const hook = hooks[name] as ((...all: readonly unknown[]) => unknown) | undefined;
    if (!hook) return;
    const report = (error: unknown): void =>
      this.parts.log.add(`${name} of the leader of "${this.key}" threw: ${messageOf(error)}`);
    void term.run(() => hook.apply(hooks, args)).catch(report);
  }

  /** Waits for `done`, but no longer than `ms`, and only until the campaign is stopped. */
  async #wait(ms: number, done?: Promise<void>): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    let stopListening!: () => void;
    const stopped = new Promise<void>((resolve) => (stopListening = onAbort(signal, resolve)));
    await this.parts.locker.timers.withTimeout(ms, done ? Promise.race([stopped, done]) : stopped);
    stopListening();
  }
}

async function giveUp(hold: StoreHold): Promise<void> {
  if (hold.lost) hold.endLost();
  else await hold.release();
}

/** One term: the hold of the leader, and the work that runs under it. */
export class Term {
  /** The term as the application sees it. */
  readonly view: LeaderTerm;
  readonly #over = new AbortController();
  readonly #work = new Set<Promise<void>>();

  constructor(
    readonly hold: StoreHold,
    since: Date,
  ) {
    const { key, fencingToken } = hold;
    this.view = Object.freeze({ key, fencingToken, signal: this.#over.signal, since });
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Whether the term is not over, and its lease can be proven right now. */
  get isProven(): boolean {
    return !this.isOver && this.hold.held;
  }

  /** Whether the caller is, or was called by, the work of this term. */
  get isCaller(): boolean {
    const current = findCurrentHold(this.hold.key, this.hold.keeper);
    return current !== undefined && (current === this.hold || current.isInside(this.hold));
  }

  get hasWork(): boolean {
    return this.#work.size > 0;
  }

  end(error: Error): void {
    this.#over.abort(error);
  }

  /** Runs `work` as the holder of the lock, which is not released before the work has ended. */
  async run<T>(work: () => T): Promise<Awaited<T>> {
    const result = runHolding(this.hold, work);
    // Without this, work that has already ended would end the term a few promises later.
    if (!isAwaitable(result)) return result as Awaited<T>;
    // Adopted once: a thenable (such as a database query) may begin its work each time its `then` is called.
    const adopted = Promise.resolve(result);
    const ended = adopted.then(
      () => undefined,
      () => undefined,
    );
    this.#work.add(ended);
    try {
      return await adopted;
    } finally {
      this.#work.delete(ended);
    }
  }

  /**
   * The same for a call that has a result, such as a scheduled method.
   * @throws LockLostError when the lock was lost meanwhile, even if the work returned (`error.result`)
   */
  async runCall(work: () => unknown): Promise<unknown> {
    const result = await this.run(work);
    const { lost } = this.hold;
    if (lost) throw withResult(lost, result, this.hold.mode);
    return result;
  }

  /** Resolves when all work has ended; call it after the end, when no more work is added. */
  async workEnded(): Promise<void> {
    await Promise.all(this.#work);
  }
}
