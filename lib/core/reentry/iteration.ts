import { AsyncLocalStorage } from 'node:async_hooks';
import { withEither } from '../abort-listener.js';
import { type Hold } from '../hold/hold.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { LockReentryError } from '../lock.errors.js';
import { type Locker } from '../acquire/locker.js';
import { STANDSTILL_MS } from '../timing.js';

/** What a consumer works on: which value of which iteration. */
interface Consumed {
  readonly iteration: Iteration;
  readonly step: number;
  /** The value of an iteration around it. */
  readonly outer: Consumed | null | undefined;
}

const storage = new AsyncLocalStorage<Consumed | null>();

// Node (before 24) follows async contexts from the first use on: what was begun before shares one context, and all of
// it would be the consumer of the first value.
storage.run(null, () => undefined);

/**
 * An iteration under a lock, and the value that its consumer works on. The consumer holds nothing: its call of the same key
 * waits for the iteration to end. When it awaits that call, the iteration waits for it, too, and neither would go on.
 */
export class Iteration {
  /** The number of the last value. */
  #step = 0;
  /** How many values are under way. */
  #asked = 0;

  constructor(readonly lock: Hold) {}

  /** The consumer asks on: it is through with the last value. */
  ask(): void {
    this.#asked += 1;
  }

  answered(): void {
    this.#asked -= 1;
  }

  /**
   * A result whose reader is known as the consumer from then on. Whoever calls `next()` cannot be marked: what is
   * started beside the loop in the same turn has that context, too. The value is read after the await, in the context
   * of the loop alone.
   */
  give<T>(value: T): IteratorYieldResult<T> {
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

  /** Whether nobody has asked on since this value was given. */
  standsAt(step: number): boolean {
    return this.#asked === 0 && this.#step === step && this.lock.held;
  }

  /** Forgets what is over: a loop in a loop would keep all of the inner ones. */
  #around(): Consumed | null | undefined {
    let around = storage.getStore();
    while (around && (around.iteration === this || around.iteration.lock.isReleased)) around = around.outer;
    return around;
  }
}

/**
 * Enters a lock; refuses a call of a consumer that waits for its own iteration.
 * @throws LockReentryError
 */
export async function enterBeside<T>(
  locker: Locker,
  keys: readonly string[],
  options: ResolvedLockOptions,
  enter: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const consumed = consumedOf(locker, keys, options);
  if (!consumed) return enter(options.signal);
  const { iteration, step } = consumed;
  const standstill = new AbortController();
  const check = locker.timers.schedule(locker.clock.now() + STANDSTILL_MS, () => {
    if (iteration.standsAt(step)) standstill.abort(standstillError(keys, options, iteration.lock));
  });
  try {
    return await withEither(options.signal, standstill.signal, enter);
  } finally {
    check.cancel();
  }
}

/** The value that this chain of calls works on, of an iteration that excludes a lock of these keys. */
function consumedOf(
  locker: Locker,
  keys: readonly string[],
  { mode, owner }: ResolvedLockOptions,
): Consumed | null | undefined {
  const excludes = ({ iteration: { lock } }: Consumed): boolean =>
    lock.keeper === locker.holds &&
    (mode === 'write' || lock.mode === 'write') &&
    owner !== lock.owner &&
    lock.keys.some((key) => keys.includes(key));
  let consumed = storage.getStore();
  while (consumed && !(excludes(consumed) && consumed.iteration.standsAt(consumed.step))) consumed = consumed.outer;
  return consumed;
}

function standstillError(keys: readonly string[], { mode }: ResolvedLockOptions, held: Hold): LockReentryError {
  const key = keys.join(', ');
  return new LockReentryError(
    `The lock "${key}" is acquired for ${mode} by the consumer of an iteration that holds "${held.key}" for ${held.mode} ` +
      'until it ends, and that waits for this call. Make the call after the iteration, or in the method that is iterated.',
    { key, mode },
  );
}
