import { AsyncResource } from 'node:async_hooks';

/**
 * The async context of the code that created it. `AsyncLocalStorage.snapshot` does the same, but takes a hundred times longer on
 * Node 20, which is too slow for an object per call.
 */
export class CallContext {
  readonly #resource = new AsyncResource('RedisLockCall', { requireManualDestroy: true });

  run<T>(work: () => T): T {
    return this.#resource.runInAsyncScope(work);
  }
}
