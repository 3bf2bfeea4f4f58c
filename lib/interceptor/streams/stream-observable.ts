import { Observable, Subject, type ObservableInput, type Subscriber, type TeardownLogic } from 'rxjs';
import { defer, from, mergeMap, of, takeUntil } from 'rxjs';
import { onAbort } from '../../core/abort-listener.js';
import { CallContext } from '../../core/call-context.js';
import { type WorkOutcome } from '../../core/hold/hold.js';
import { type HandlerCalls } from '../request/handler-calls.js';
import { type ObservableLike, isObservableLike, isThenable } from './stream-kind.js';
import { type OpenLock, type StreamLock, endQuietly } from './stream-lock.js';

/**
 * Returns a cold Observable. Each subscription acquires its own lock, calls the method under it and subscribes to the
 * result; the lock is held until the result completes, errors or is unsubscribed, or until the lock is lost. With the `calls` of a
 * handler, it is held until these have also settled. A subscription that ends can end only an Observable; other work of a
 * handler continues.
 */
export function lockedObservable(open: OpenLock, method: () => unknown, calls?: HandlerCalls): Observable<unknown> {
  return new Observable((subscriber) => {
    const waiting = new AbortController();
    const start = async (): Promise<void> => {
      const lock = await open(waiting.signal);
      if (lock) new HeldSubscription(lock, subscriber, calls).start(method);
      else subscriber.complete();
    };
    start().catch((error: unknown) => subscriber.error(error));
    return () => waiting.abort();
  });
}

/** One subscription under a lock that is already held; releases the lock once, however it ends. */
export class HeldSubscription {
  /** Ends the source even while it emits synchronously, when its subscription is not known yet. */
  readonly #stop = new Subject<void>();
  /** The source emits in the context of the lock, but the subscriber may be unrelated and must not run in that context. */
  readonly #subscriberContext = new CallContext();
  #ignoreLoss = (): void => {};
  #over = false;
  #hasValue = false;
  /** The subscriber is gone, and the source continues under its lock. */
  #isAbandoned = false;

  constructor(
    private readonly lock: StreamLock,
    private readonly subscriber: Subscriber<unknown>,
    private readonly calls?: HandlerCalls,
  ) {}

  /** Calls the method and emits what it returns, unless the subscriber is gone or the lock is already lost. */
  start(method: () => unknown): void {
    const { lock, subscriber, calls } = this;
    const { signal } = lock;
    if (subscriber.closed) return this.#end('failed', () => {});
    if (signal.aborted) return this.#end('failed', () => subscriber.error(signal.reason));
    this.#ignoreLoss = onAbort(signal, () => this.#lose(signal.reason));
    subscriber.add(() => this.#abandon());
    const subscribe = () =>
      defer(() => sourceOf(method()))
        .pipe(takeUntil(this.#stop))
        .subscribe({
          next: (value) => this.#next(value),
          error: (error: unknown) => this.#end('failed', () => subscriber.error(error)),
          complete: () => this.#end('done', (lost) => (lost ? subscriber.error(lost.error) : subscriber.complete())),
        });
    lock.run(() => (calls ? calls.run(subscribe) : subscribe()));
  }

  #next(value: unknown): void {
    this.#hasValue = true;
    if (this.#isAbandoned) this.#cancel('done');
    else this.#subscriberContext.run(() => this.subscriber.next(value));
  }

  /** A handler cannot be cancelled, so the source is kept until the handler returns an Observable or is done. */
  #abandon(): void {
    const { calls } = this;
    if (!calls || calls.isStream || this.#hasValue) return this.#cancel('done');
    this.#isAbandoned = true;
    calls.onStream(() => this.#cancel('done'));
  }

  /**
   * The source has ended by itself. The lock is released before the subscriber is notified, so that the subscriber finds
   * the lock free; but the subscriber does not wait for a handler that is still at work.
   */
  #end(outcome: WorkOutcome, then: (lost?: { error: unknown }) => void): void {
    if (!this.#settle()) return;
    const tell = (lost?: { error: unknown }): void => this.#subscriberContext.run(() => then(lost));
    if (this.calls?.isWorking) {
      void this.#release(outcome);
      return tell();
    }
    this.lock.end(outcome).then(
      () => tell(),
      (error: unknown) => tell({ error }),
    );
  }

  /** Notifies the subscriber at once, without waiting for the release of a lost lock. */
  #lose(reason: unknown): void {
    try {
      this.#cancel('failed');
    } finally {
      this.#subscriberContext.run(() => this.subscriber.error(reason));
    }
  }

  /** Stops the source under the lock, because its teardown may need the lock; releases the lock even if the teardown throws. */
  #cancel(outcome: WorkOutcome): void {
    if (!this.#settle()) return;
    try {
      this.lock.run(() => this.#stop.next());
    } finally {
      void this.#release(outcome);
    }
  }

  /** Waits for a handler that is still at work, unless the lock is lost. */
  async #release(outcome: WorkOutcome): Promise<void> {
    if (this.calls?.isWorking && !this.lock.signal.aborted) await this.calls.idle();
    await endQuietly(this.lock, outcome);
  }

  #settle(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#ignoreLoss();
    this.calls?.close();
    return true;
  }
}

function sourceOf(result: unknown): Observable<unknown> {
  if (isObservableLike(result)) return ofThisCopy(result);
  if (!isThenable(result)) return from(result as ObservableInput<unknown>);
  return from(result).pipe(mergeMap((value) => (isObservableLike(value) ? ofThisCopy(value) : of(value))));
}

/** `from` refuses the Observable of another copy of rxjs with another `Symbol.observable`. */
export function ofThisCopy(source: ObservableLike): Observable<unknown> {
  if (source instanceof Observable) return source;
  return new Observable((subscriber) => source.subscribe(subscriber) as TeardownLogic);
}
