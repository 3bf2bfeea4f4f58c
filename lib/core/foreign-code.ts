import { types } from 'node:util';
import { runOutside } from './reentry/context.js';

/**
 * Calls code of others that nobody awaits: a listener, a logger, a subscriber. The lock does not feel what it does: it
 * runs as the holder of nothing, and what it throws, or its promise rejects with, goes to `onError`, which must not
 * throw.
 */
export function callForeign(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const returned = runOutside(call);
    // A promise that rejects would end the process. Another `then` is not called: there a query may begin with it.
    if (types.isPromise(returned)) void Promise.prototype.then.call(returned, undefined, onError);
  } catch (error) {
    onError(error);
  }
}
