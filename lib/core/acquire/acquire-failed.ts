import { type AcquisitionHost, type LockRequest, waitedMsOf } from './request.js';
import type { LockEventMap } from '../lock.events.js';
import { LockBusyError, LockClaimedError, LockShutdownError, LockWaitTimeoutError } from '../lock.errors.js';

/**
 * Why an acquisition was not granted: `busy` and not to wait, `timeout` of the wait, `aborted` by the caller's signal,
 * `claimed` (another call runs this fire of a job), `shutdown` of the app, or another `error`, such as Redis unreachable.
 */
export type AcquireFailure = 'busy' | 'timeout' | 'aborted' | 'claimed' | 'shutdown' | 'error';

/** What the event of a failed acquisition says. */
export const failedEvent = (
  wanted: LockRequest,
  host: Pick<AcquisitionHost, 'clock'>,
  error: unknown,
  waited: boolean,
): LockEventMap['acquireFailed'] => ({
  ...wanted.label,
  key: wanted.name,
  mode: wanted.options.mode,
  waitedMs: waitedMsOf(wanted, host),
  waited,
  reason: failureOf(error, wanted.options.signal),
  error,
});

function failureOf(error: unknown, signal: AbortSignal | undefined): AcquireFailure {
  if (error instanceof LockWaitTimeoutError) return 'timeout';
  if (error instanceof LockClaimedError) return 'claimed';
  if (error instanceof LockBusyError) return 'busy';
  if (error instanceof LockShutdownError) return 'shutdown';
  return signal?.aborted && error === signal.reason ? 'aborted' : 'error';
}
