import { AsyncLocalStorage } from 'node:async_hooks';
import { LockNotHeldError } from '../../core/lock.errors.js';
import { isObservableLike, isThenable } from '../streams/stream-kind.js';

const requests = new AsyncLocalStorage<HandlerCalls>();

type Apply = (this: Function, self: unknown, args: readonly unknown[]) => unknown;

/** Marks what has taken the place of `apply`, of this copy of the package. */
const WATCHES = Symbol('watches');

/**
 * What the handler of one request does. Interceptors see only what the others make of it: a `timeout()` between the lock and
 * the handler ends the Observable, and the handler goes on; and none of them can tell work that nobody can cancel from an
 * Observable that has no value yet. So the calls of the handler itself are watched.
 */
export class HandlerCalls {
  /** Those of another lock of the request, around this one. */
  readonly #outer: HandlerCalls | undefined;
  readonly #pending = new Set<Promise<unknown>>();
  /** With what the handler was called: at another try of the same request, Nest passes the same list. */
  #called: readonly unknown[] | null = null;
  #isClosed = false;
  #isStream = false;
  #onStream = (): void => {};

  /** `request` is what one call of the handler is known by, whichever of its interceptors asks. */
  constructor(
    private readonly handler: Function,
    private readonly request: object,
    private readonly where: string,
  ) {
    const around = requests.getStore();
    this.#outer = around?.request === request ? around : undefined;
    watch(handler);
  }

  /** Whether the handler has returned an Observable, which whoever subscribed to it can end. */
  get isStream(): boolean {
    return this.#isStream;
  }

  /** Whether a call of the handler has not settled. */
  get isWorking(): boolean {
    return this.#pending.size > 0;
  }

  /** Runs `work`, within which Nest calls the handler. */
  run<T>(work: () => T): T {
    return requests.run(this, work);
  }

  /** Calls back when the handler returns an Observable. */
  onStream(callback: () => void): void {
    this.#onStream = callback;
  }

  /** The request is over: a handler that Nest has not called by now is not to run. */
  close(): void {
    this.#isClosed = true;
  }

  /** Resolves when all calls of the handler have settled. */
  async idle(): Promise<void> {
    while (this.isWorking) await Promise.allSettled(this.#pending);
  }

  /** Calls a function; watches it when it is the handler of this request. */
  call(called: Function, args: readonly unknown[], run: () => unknown): unknown {
    const call = (): unknown => (this.#outer ? this.#outer.call(called, args, run) : run());
    if (called !== this.handler) return call();
    // With another list it is called in the context of this request by somebody else, who may have a lock of his own.
    if (this.#isClosed && (this.#called === null || this.#called === args)) {
      throw new LockNotHeldError(`${this.where} is not run any more: its request was given up, and its lock with it.`);
    }
    this.#called ??= args;
    const result = call();
    if (isThenable(result)) return this.#follow(result);
    this.#look(result);
    return result;
  }

  /** Adopted once: a thenable (such as the query of a database) may begin its work each time that it is asked. */
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
 * Nest calls handlers by `apply`, on every transport. The function itself stays what it is, for guards and decorators that
 * know it by reference. A handler that is called otherwise, or that is frozen, is not seen: then its first value counts.
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
