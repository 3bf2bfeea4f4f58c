import { AsyncLocalStorage } from 'node:async_hooks';
import { LockConfigurationError } from '../core/lock.errors.js';

/** The manual run of this chain of calls, until a job has taken it. */
const asked = new AsyncLocalStorage<{ isTaken: boolean }>();

/** Whether a call of a job is a manual run: the first call inside `runNow`. */
export function takeRunNow(): boolean {
  const run = asked.getStore();
  if (!run || run.isTaken) return false;
  run.isTaken = true;
  return true;
}

/**
 * Runs a job with `oncePer` manually, between two fires: `runNow(() => reports.noon())`. It holds the lock of the job and claims no
 * fire; a fire that comes meanwhile finds the lock busy, as during a long run. It rejects instead of skipping: with the error of the
 * job, or because the job is running or the function called no job.
 * @throws LockBusyError, LockConfigurationError
 */
export async function runNow<T>(work: () => Promise<T> | T): Promise<T> {
  if (typeof work !== 'function') {
    throw new LockConfigurationError(`Expected the work of runNow() to be a function, got ${typeof work}.`);
  }
  const run = { isTaken: false };
  try {
    const result = await asked.run(run, work);
    if (run.isTaken) return result;
  } finally {
    // A call that the function has left behind, as in a timer, is a usual one: it claims its fire.
    run.isTaken = true;
  }
  throw new LockConfigurationError(
    'The function of runNow() called no method with `oncePer` that returns a promise: it did not run a job. Pass a function ' +
      'that calls one: `runNow(() => reports.noon())`. If its class has @Leader, call it on the instance that leads.',
  );
}
