import { AsyncResource } from 'node:async_hooks';

/**
 * The async context of the code that made it. `AsyncLocalStorage.snapshot` does the same, but takes a hundred times as long on
 * Node 20, which is too much for an object of one call.
 */
export class CallContext {
  readonly #resource = new AsyncResource('RedisLockCall', { requireManualDestroy: true });

  run<T>(work: () => T): T {
    return this.#resource.runInAsyncScope(work);
  }
}
