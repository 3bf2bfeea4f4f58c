import { types } from 'node:util';
import { runOutside } from './reentry/context.js';
import { type Reporter } from './reporter.js';

/**
 * Calls code of the application whose result is not awaited: a listener, a logger, a subscriber. It cannot harm the lock: it runs
 * outside all locks, and its errors and rejections go to `onError`, which must not throw.
 */
export function callForeign(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const returned = runOutside(call);
    // An unhandled rejection would end the process. Other thenables are ignored: a call of `then` may start a query.
    if (types.isPromise(returned)) void Promise.prototype.then.call(returned, undefined, onError);
  } catch (error) {
    onError(error);
  }
}

/** Reports to a logger of the application, such as a Nest `Logger`. If the logger throws, only the line is lost. */
export function harmless(logger: Reporter): Reporter {
  const report = (level: keyof Reporter) => (message: string) =>
    callForeign(
      () => logger[level](message),
      () => undefined,
    );
  return { debug: report('debug'), warn: report('warn'), error: report('error') };
}
