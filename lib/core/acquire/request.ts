import { type LockName } from '../error-texts.js';
import {
  LockBusyError,
  LockClaimedError,
  LockConfigurationError,
  LockShutdownError,
  LockWaitTimeoutError,
} from '../lock.errors.js';
import { type LockEvent, type LockEventMap, type LockLabel } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type FireClaim } from '../store/fires.js';
import { type AcquireRequest } from '../store/lock-store.js';
import { waiterLeaseMs } from '../timing.js';

/** A request for a lock: its keys, options and caller. `Locker.request` makes it, with checked keys. */
export interface LockRequest {
  /** Without repetitions, in the order in which the caller named them; inside an acquisition, in the order of the store. */
  readonly keys: readonly string[];
  /** The keys in the order of the caller, if the order of the store differs. */
  readonly callerKeys?: readonly string[];
  /** For some keys of a lock whose keys are acquired one after the other: whether the call has all of them. */
  readonly part?: { isGranted: boolean };
  /** The keys as the caller named them, joined for texts. */
  readonly name: string;
  readonly options: ResolvedLockOptions;
  readonly label: LockLabel;
  /** The caller, as a text of `HolderTexts`. */
  readonly holder: string;
  readonly claim?: FireClaim | undefined;
  /** When the call began, on the monotonic clock: `waitMs` counts from then on, whatever the call waits for. */
  readonly startedAt: number;
}

/** @throws LockConfigurationError for options that do not fit its keys */
export function checked(request: LockRequest): LockRequest {
  const { keys, name, options } = request;
  if (options.perInstance === 0 || keys.length === 1) return request;
  const text = `\`perInstance\` needs one key, got ${keys.length} ("${name}"); leave it out, or lock the keys one by one.`;
  throw new LockConfigurationError(text, { key: name });
}

/** The same request for some of its keys. */
export const forKeys = (request: LockRequest, keys: readonly string[], part: { isGranted: boolean }): LockRequest => ({
  ...request,
  keys,
  part,
  name: keys.join(', '),
});

/** How the errors of a request name its lock. */
export const nameOf = ({ name, options: { mode, permits, take } }: LockRequest): LockName => ({
  key: name,
  mode,
  permits,
  take,
});

/** How the events of a request name its lock. */
export const eventOf = ({ name, keys, callerKeys = keys, options, label }: LockRequest): LockEvent => ({
  key: name,
  keys: callerKeys,
  mode: options.mode,
  ...label,
  note: options.note || undefined,
});

/** How long the call has waited so far. */
export const waitedMsOf = ({ startedAt }: Pick<LockRequest, 'startedAt'>, now: number): number =>
  Math.round(now - startedAt);

/** For how long its keys stay taken, counted from the grant; a call that did not get all of its keys has not begun to work. */
export const holdAtLeastMsOf = ({ part, options }: LockRequest): number =>
  part?.isGranted === false ? 0 : options.holdAtLeastMs;

/** The lease that a request asks for: at least `holdAtLeastMs`. */
export const requestedLeaseMs = ({ options: { leaseMs, holdAtLeastMs } }: LockRequest): number =>
  Math.max(leaseMs, holdAtLeastMs);

/** The command that an attempt sends to the store. A call that has waited may continue to wait (`maxWaiters`). */
export function acquireRequestOf(request: LockRequest, attempt: string, hasWaited: boolean): AcquireRequest {
  const { keys, claim, options, holder } = request;
  const { mode, leaseMs, waitMs, maxWaiters, owner, fair, permits, take } = options;
  return {
    keys,
    attempt,
    owner,
    mode,
    leaseMs: requestedLeaseMs(request),
    waiterLeaseMs: waitMs === 0 ? 0 : waiterLeaseMs(leaseMs),
    fair: fair !== false,
    maxWaiters: hasWaited ? 0 : maxWaiters,
    permits,
    take,
    holder,
    claim,
  };
}

/** The event of a request that was not granted. */
export const failedEvent = (
  request: LockRequest,
  now: number,
  error: unknown,
  waited: boolean,
): LockEventMap['acquireFailed'] => ({
  ...eventOf(request),
  waitedMs: waitedMsOf(request, now),
  waited,
  reason: failureOf(error, request.options.signal),
  error,
});

function failureOf(error: unknown, signal: AbortSignal | undefined): LockEventMap['acquireFailed']['reason'] {
  if (error instanceof LockWaitTimeoutError) return 'timeout';
  if (error instanceof LockClaimedError) return 'claimed';
  if (error instanceof LockBusyError) return 'busy';
  if (error instanceof LockShutdownError) return 'shutdown';
  return signal?.aborted && error === signal.reason ? 'aborted' : 'error';
}
