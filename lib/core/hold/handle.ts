import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockMode, LockNotHeldError } from '../lock.errors.js';
import { type Lock } from '../lock.js';
import { printable } from '../printable.js';
import { type Reporter } from '../reporter.js';
import { type GarbageWatch, type Runtime } from '../runtime.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { WATCH_HANDLES_AFTER_MS } from '../timing.js';
import { type HandleTracker, type Hold } from './hold.js';

/**
 * The result of `acquire()`. The watchdog refers to the hold behind it and never to this object, so that its garbage
 * collection can be noticed if the caller drops it without a release.
 */
class LockHandle implements Lock {
  readonly #lock: Hold;

  constructor(lock: Hold) {
    this.#lock = lock;
  }

  get key(): string {
    return this.#lock.key;
  }

  get keys(): readonly string[] {
    return this.#lock.keys;
  }

  get mode(): LockMode {
    return this.#lock.mode;
  }

  get owner(): string {
    return this.#lock.owner;
  }

  get fencingToken(): number {
    return this.#lock.fencingToken;
  }

  get fencingTokens(): readonly number[] {
    return this.#lock.fencingTokens;
  }

  get signal(): AbortSignal {
    return this.#lock.signal;
  }

  get held(): boolean {
    return this.#lock.held;
  }

  get remainingMs(): number {
    return this.#lock.remainingMs;
  }

  extend(leaseMs: number): Promise<void> {
    return this.#lock.extend(leaseMs);
  }

  downgrade(): Promise<void> {
    return this.#lock.downgrade();
  }

  /** Async, which keeps this handle alive meanwhile: it may be the last reference to it. */
  async transfer(options?: { leaseMs?: number }): Promise<string> {
    return await this.#lock.transferHandle(options);
  }

  release(): Promise<boolean> {
    return this.#lock.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lock.release();
  }
}

/**
 * A handle that is watched. V8 keeps the value of a registry until the next full collection, even after `unregister`: this is only
 * this small object, and no longer the lock.
 */
class WatchedHandle implements HandleTracker {
  constructor(
    private readonly registry: HandleRegistry,
    public lock: Hold | null,
    /** The handle, until it is watched: it cannot be collected before. */
    public young: object | null,
    /** Its index in the list of young handles. */
    public place: number,
  ) {}

  forget(): void {
    this.registry.forget(this);
  }
}

/**
 * Creates handles, and releases the locks of dropped ones. To have V8 watch an object costs more than the rest of a lock, and most
 * locks are released soon: only a handle that lives for `WATCH_HANDLES_AFTER_MS` is watched.
 */
export class HandleRegistry {
  readonly #dropped: GarbageWatch<WatchedHandle>;
  /** The handles that are not watched yet. */
  readonly #young: WatchedHandle[] = [];
  #watching: ScheduledCall | null = null;

  constructor(
    watchGarbage: Runtime['watchGarbage'],
    private readonly timers: TimerQueue,
    reporter: Reporter,
  ) {
    const onDropped = ({ lock }: WatchedHandle): void => {
      if (!lock || lock.lost) return;
      const text =
        `A handle of the lock "${lock.key}" was dropped without a release; releasing it now. Call \`release()\` in a ` +
        '`finally`, or use `await using` or `withLock`.';
      reporter.error(printable(text));
      // The caller may have kept only the signal. It must be aborted before another caller can hold the lock.
      if (lock.hasSignal) lock.lose('dropped', new LockNotHeldError(text, lock));
      lock.finish(undefined);
    };
    // A collection may happen in the context of any call.
    this.#dropped = watchGarbage(AsyncLocalStorage.bind(onDropped));
  }

  handOut(lock: Hold): Lock {
    return this.track(new LockHandle(lock), lock);
  }

  /** Releases `lock` if `holder` is garbage-collected before it was released. */
  track<T extends object>(holder: T, lock: Hold): T {
    // The work may have released it before it returned the stream that would hold it.
    if (lock.isReleased) return holder;
    const handle = new WatchedHandle(this, lock, holder, this.#young.length);
    this.#young.push(handle);
    this.#watching ??= this.timers.schedule(this.timers.now() + WATCH_HANDLES_AFTER_MS, this.#watchAll);
    lock.tracker = handle;
    return holder;
  }

  /**
   * Internal: stops watching. Otherwise the registry would call back in vain. Also, a registry that is itself collected must have no
   * entries left: after that, V8 (in Node 20) does not call back any registry of the process.
   */
  forget(handle: WatchedHandle): void {
    if (!handle.lock) return;
    handle.lock = null;
    if (!handle.young) return this.#dropped.unregister(handle);
    handle.young = null;
    // The last handle moves to its place.
    const last = this.#young.pop()!;
    if (last !== handle) {
      this.#young[handle.place] = last;
      last.place = handle.place;
    }
    if (this.#young.length > 0) return;
    this.#watching?.cancel();
    this.#watching = null;
  }

  readonly #watchAll = (): void => {
    this.#watching = null;
    for (const handle of this.#young.splice(0)) {
      this.#dropped.register(handle.young!, handle, handle);
      handle.young = null;
    }
  };
}
