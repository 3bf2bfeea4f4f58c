import { AsyncLocalStorage } from 'node:async_hooks';
import { LockNotHeldError } from '../../core/lock.errors.js';
import { isObservableLike, isThenable } from '../streams/stream-kind.js';

const requests = new AsyncLocalStorage<HandlerCalls>();

type Apply = (this: Function, self: unknown, args: readonly unknown[]) => unknown;

/** Marks an `apply` that this copy of the package has put in place. */
const WATCHES = Symbol('watches');

/**
 * Watches the calls of the handler of one request. An interceptor sees only what other code makes of them: a `timeout()`
 * between the lock and the handler ends the Observable while the handler continues, and an interceptor cannot distinguish
 * work that cannot be cancelled from an Observable that has no value yet.
 */
export class HandlerCalls {
  /** Watches the same calls for an outer lock of the same request. */
  readonly #outer: HandlerCalls | undefined;
  readonly #pending = new Set<Promise<unknown>>();
  /** The arguments of the handler: when the same request is tried again, Nest passes the same array. */
  #called: readonly unknown[] | null = null;
  #isClosed = false;
  #isStream = false;
  #onStream = (): void => {};

  /** @param request identifies one request to all of its interceptors */
  constructor(
    private readonly handler: Function,
    private readonly request: object,
    private readonly where: string,
  ) {
    const around = requests.getStore();
    this.#outer = around?.request === request ? around : undefined;
    watch(handler);
  }

  /** Whether the handler has returned an Observable, which its subscriber can end. */
  get isStream(): boolean {
    return this.#isStream;
  }

  get isWorking(): boolean {
    return this.#pending.size > 0;
  }

  /** Runs `work`, within which Nest calls the handler. */
  run<T>(work: () => T): T {
    return requests.run(this, work);
  }

  onStream(callback: () => void): void {
    this.#onStream = callback;
  }

  /** The request is over: if Nest has not called the handler yet, it must not run. */
  close(): void {
    this.#isClosed = true;
  }

  async idle(): Promise<void> {
    while (this.isWorking) await Promise.allSettled(this.#pending);
  }

  /** Calls a function; watches it when it is the handler of this request. */
  call(called: Function, args: readonly unknown[], run: () => unknown): unknown {
    const call = (): unknown => (this.#outer ? this.#outer.call(called, args, run) : run());
    if (called !== this.handler) return call();
    // With other arguments, other code calls it in the context of this request, and may have its own lock.
    if (this.#isClosed && (this.#called === null || this.#called === args)) {
      throw new LockNotHeldError(
        `${this.where} is no longer run: its request was given up, and its lock was released.`,
      );
    }
    this.#called ??= args;
    const result = call();
    if (isThenable(result)) return this.#follow(result);
    this.#look(result);
    return result;
  }

  /** Adopted once: a thenable (such as a database query) may begin its work each time its `then` is called. */
  #follow(result: PromiseLike<unknown>): Promise<unknown> {
    const adopted = Promise.resolve(result);
    this.#pending.add(adopted);
    const settle = (): void => void this.#pending.delete(adopted);
    adopted.then((value) => (settle(), this.#look(value)), settle);
    return adopted;
  }

  #look(result: unknown): void {
    if (this.#isStream || !isObservableLike(result)) return;
    this.#isStream = true;
    this.#onStream();
  }
}

/**
 * Watches the calls of a handler by its `apply`, with which Nest calls handlers on every transport. The function itself
 * stays the same, for guards and decorators that compare it by reference. Other calls, and those of a frozen handler, are not
 * seen: then the first value counts.
 */
function watch(handler: Function): void {
  const before = Reflect.get(handler, 'apply') as Apply;
  if (WATCHES in before) return;
  const apply: Apply = function (self, args) {
    const call = (): unknown => before.call(this, self, args);
    const calls = requests.getStore();
    return calls ? calls.call(this, args, call) : call();
  };
  const value = Object.defineProperty(apply, WATCHES, { value: true });
  Reflect.defineProperty(handler, 'apply', { value, writable: true, configurable: true });
}
