import { AsyncLocalStorage } from 'node:async_hooks';
import { withEither } from '../abort-listener.js';
import { type Locker } from '../acquire/locker.js';
import { type LockRequest } from '../acquire/request.js';
import { standstillError } from '../error-texts.js';
import { type Hold } from '../hold/hold.js';
import { STANDSTILL_MS } from '../timing.js';

/** The value that a consumer works on. */
interface ConsumedValue {
  readonly iteration: Iteration;
  /** The number of the value in its iteration. */
  readonly step: number;
  /** The value of an iteration around this one. */
  readonly outer: ConsumedValue | null | undefined;
}

const storage = new AsyncLocalStorage<ConsumedValue | null>();

// Before version 24, Node follows async contexts from the first use on. Everything that began before shares one context,
// and all of it would count as the consumer of the first value.
storage.run(null, () => undefined);

/**
 * An iteration under a lock. Its consumer holds nothing: if it acquires the same key, that call waits for the iteration to
 * end. When the consumer awaits the call, the iteration waits for the consumer, and neither goes on.
 */
export class Iteration {
  /** The number of the last value. */
  #step = 0;
  /** How many calls of `next()` are under way. */
  #requested = 0;

  constructor(readonly lock: Hold) {}

  /** The consumer calls `next()`: it is done with the last value. */
  onNext(): void {
    this.#requested += 1;
  }

  /** A call of `next()` has settled. */
  onNextSettled(): void {
    this.#requested -= 1;
  }

  /**
   * Makes a result that marks its reader as the consumer of the value. The caller of `next()` cannot be marked: code that
   * was started beside the loop in the same turn shares its context. The value is read after the `await`, in the context of
   * the loop alone.
   */
  resultOf<T>(value: T): IteratorYieldResult<T> {
    const step = ++this.#step;
    const consume = (): void => storage.enterWith({ iteration: this, step, outer: this.#around() });
    return {
      done: false,
      get value() {
        consume();
        return value;
      },
    };
  }

  /** Whether the iteration holds its lock and waits for the consumer of this value to call `next()`. */
  isPausedAt(step: number): boolean {
    return this.#requested === 0 && this.#step === step && this.lock.held;
  }

  /** Skips iterations that are over: a loop inside a loop would keep all of the inner ones. */
  #around(): ConsumedValue | null | undefined {
    let around = storage.getStore();
    while (around && (around.iteration === this || around.iteration.lock.isReleased)) around = around.outer;
    return around;
  }
}

/** Whether this chain of calls works on a value of an iteration under a lock. */
export const isConsumer = (): boolean => Boolean(storage.getStore());

/**
 * Calls `enter` with a signal that is aborted if the call waits for an iteration that waits for this call.
 * @throws LockReentryError
 */
export async function abortOnStandstill<T>(
  locker: Locker,
  request: LockRequest,
  enter: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const { keys, options } = request;
  const consumed = findConsumedValue(locker, request);
  if (!consumed) return enter(options.signal);
  const { iteration, step } = consumed;
  const standstill = new AbortController();
  const check = locker.timers.schedule(locker.clock.now() + STANDSTILL_MS, () => {
    if (!iteration.isPausedAt(step)) return;
    standstill.abort(standstillError({ key: keys.join(', '), mode: options.mode }, iteration.lock));
  });
  try {
    return await withEither(options.signal, standstill.signal, enter);
  } finally {
    check.cancel();
  }
}

/** Finds the value that this chain of calls works on, of a paused iteration whose lock excludes the requested one. */
function findConsumedValue(
  locker: Locker,
  { keys, options: { mode, owner } }: LockRequest,
): ConsumedValue | null | undefined {
  const isBlocking = ({ iteration: { lock } }: ConsumedValue): boolean =>
    lock.keeper === locker.holds &&
    (mode === 'write' || lock.mode === 'write') &&
    owner !== lock.owner &&
    lock.keys.some((key) => keys.includes(key));
  let consumed = storage.getStore();
  while (consumed && !(isBlocking(consumed) && consumed.iteration.isPausedAt(consumed.step))) consumed = consumed.outer;
  return consumed;
}
