import { printable } from './printable.js';

/** The mode of a lock: `write` is exclusive, `read` is shared with other readers. */
export type LockMode = 'write' | 'read';

/** The machine-readable name of each error; safe to compare across copies of the package. */
export type LockErrorCode =
  | 'LOCK_BUSY'
  | 'LOCK_WAIT_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_STORE'
  | 'LOCK_KEY'
  | 'LOCK_REENTRY'
  | 'LOCK_NOT_HELD'
  | 'LOCK_SHUTDOWN'
  | 'LOCK_CONFIGURATION';

/**
 * Why a held lock was lost. The lease ended (`expired`), or the lock has been granted to another caller since (`taken`); Redis
 * could not be reached before the lease was over (`unreachable`); it was held for `maxHoldMs`, or for one more lease
 * after its iteration was ended (`max-hold`); an operator revoked it (`revoked`); the app shut down, and `drainMs` was
 * over (`shutdown`); its handle was garbage-collected (`dropped`).
 */
export type LockLostReason = 'expired' | 'taken' | 'unreachable' | 'max-hold' | 'revoked' | 'shutdown' | 'dropped';

/** The answer of one master of a quorum to an acquire. */
export interface NodeAnswer {
  /** `host:port`, the path of the socket, or the master's name and one of its sentinels. */
  readonly node: string;
  readonly answer: 'granted' | 'busy' | 'refused' | 'unreachable';
  /** The holder of the lock, or why the node could not be reached. */
  readonly detail: string;
}

/** The fields of a lock error in addition to its text. */
export interface LockErrorDetails {
  /** The key as the caller gave it; several keys are joined by `, `. */
  readonly key?: string | undefined;
  readonly mode?: LockMode;
  readonly cause?: unknown;
  readonly nodes?: readonly NodeAnswer[] | undefined;
  /** The number of permits, if too few of them are free. */
  readonly permits?: number | undefined;
  /** The `perInstance` of the call, if this process has all these permits. */
  readonly perInstance?: number | undefined;
  /** The `maxWaiters` of the call, if the queue has reached it. */
  readonly maxWaiters?: number | undefined;
}

/**
 * Makes `instanceof` work across copies of the package: two copies in one process (an ESM and a CommonJS one, or a test
 * runner's module registry) have two classes, but share this symbol through the registry of symbols.
 */
const MARKER = Symbol.for('nestjs-redis-lock:error');

/** The base of all errors of this package. `instanceof LockError` also holds for errors of another copy of the package. */
export class LockError extends Error {
  declare readonly code: LockErrorCode;
  declare readonly key: string | undefined;
  declare readonly mode: LockMode | undefined;
  /** What each master of a quorum answered; undefined elsewhere. */
  declare readonly nodes: readonly NodeAnswer[] | undefined;

  constructor(message: string, details: LockErrorDetails = {}) {
    const { cause, ...fields } = details;
    super(withPrintableKey(message, details.key), 'cause' in details ? { cause } : undefined);
    // Own and enumerable, so that IPC, JSON and loggers keep them; fields without a value would only clutter a printed stack.
    for (const [name, value] of Object.entries({ code: this.code, ...fields }))
      if (value !== undefined) Reflect.set(this, name, value);
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    try {
      if (!Object.hasOwn(this, MARKER)) return Function.prototype[Symbol.hasInstance].call(this, value);
      const names = (value as Marked | null | undefined)?.[MARKER];
      return Array.isArray(names) && names.includes((this as unknown as { [MARKER]: string })[MARKER]);
    } catch {
      // A proxy that throws is not one of our errors; a caller may abort with one.
      return false;
    }
  }
}

/** A key may come from a request, and error texts end up in logs. Developers write the rest of a text. */
function withPrintableKey(message: string, key: string | undefined): string {
  const shown = printable(key ?? '');
  return key === undefined || shown === key ? message : message.replaceAll(key, () => shown);
}

const fixed = (value: unknown): PropertyDescriptor => ({ value, writable: true, configurable: true });

interface Marked {
  readonly [MARKER]?: unknown;
}

/** Makes an error of another library also pass for a lock error: `instanceof`, name, code and details, but not its text. */
export function passFor<T extends Error>(other: T, error: LockError): T {
  const { message: _message, stack: _stack, cause: _cause, ...details } = Object.getOwnPropertyDescriptors(error);
  const marker = fixed((error as Marked)[MARKER]);
  return Object.defineProperties(other, { ...details, name: fixed(error.name), [MARKER]: marker });
}

/** Gives a class its name (which a minifier may have changed), its code, and the names by which `instanceof` recognises it. */
function define(type: { readonly prototype: LockError }, name: string, code?: LockErrorCode): void {
  const names = [...new Set(['LockError', name])];
  Object.defineProperties(type.prototype, { name: fixed(name), [MARKER]: fixed(names), code: fixed(code) });
  Object.defineProperty(type, MARKER, fixed(name));
}

/**
 * Another caller holds the lock, and the call must not wait (`waitMs: 0`, `ifBusy: 'throw'`), or the queue has reached its
 * `maxWaiters`.
 */
export class LockBusyError extends LockError {
  /** The number of permits, if too few of them are free; undefined unless it is a semaphore, or if it is held for writing. */
  declare readonly permits: number | undefined;
  /** The `perInstance` of the call, if this process has all these permits; otherwise undefined. */
  declare readonly perInstance: number | undefined;
  /** The `maxWaiters` of the call, if the queue has reached it; otherwise undefined. */
  declare readonly maxWaiters: number | undefined;
}

/** Another instance runs, or ran, this fire of a scheduled job; internal, because such a call is skipped. */
export class LockClaimedError extends LockBusyError {}

/** The lock stayed busy for the whole of `waitMs`. */
export class LockWaitTimeoutError extends LockError {
  /** How long the call waited, in milliseconds. */
  declare readonly waitedMs: number;
  /** The holder of the lock when the wait ended (`host:pid where`); undefined if unknown. */
  declare readonly holder: string | undefined;
  /** See `LockBusyError.permits`. */
  declare readonly permits: number | undefined;
  /** See `LockBusyError.perInstance`. */
  declare readonly perInstance: number | undefined;

  // oxlint-disable-next-line no-useless-constructor -- for the types of its details
  constructor(message: string, details: LockErrorDetails & { waitedMs: number; holder?: string | undefined }) {
    super(message, details);
  }
}

/** A lock that was held can no longer be proven; the work may have run at the same time as another holder's. */
export class LockLostError extends LockError {
  declare readonly reason: LockLostReason;
  /**
   * What the work returned although the lock was lost; only set on the rejection of `withLock` or a decorated method. Not enumerable,
   * because it is data of the app that does not belong in a log.
   */
  declare result: unknown;

  constructor(message: string, details: LockErrorDetails & { reason: LockLostReason; result?: unknown }) {
    const { result, ...others } = details;
    super(message, others);
    Object.defineProperty(this, 'result', fixed(result));
  }
}

/** Redis could not be reached, or refused the command; `cause` is the error of the client. */
export class LockStoreError extends LockError {
  /** Whether a retry may help: not with wrong credentials, a key of another type, or a single client on a cluster. */
  declare readonly retryable: boolean;
  /** Whether the command may have reached Redis, which may still execute it; false: nothing was sent. */
  declare readonly wasSent: boolean;

  constructor(message: string, details: LockErrorDetails & { retryable?: boolean; wasSent?: boolean } = {}) {
    const fields = { ...details, retryable: details.retryable ?? true, wasSent: details.wasSent ?? true };
    super(message, fields);
  }
}

/** Whether the store may have received the command that failed with this error, and may still execute it. */
export const mayBeCarriedOut = (error: unknown): boolean => !(error instanceof LockStoreError) || error.wasSent;

/** A key is empty, too long or ill-formed, or its template cannot be filled from the arguments. */
export class LockKeyError extends LockError {}

/**
 * The call would wait for itself (an upgrade from read to write), would not be counted (a permit under a hold that further calls may
 * share), or is nested and has `reentrant: false`.
 */
export class LockReentryError extends LockError {}

/** The code needs a lock, but none is held. */
export class LockNotHeldError extends LockError {}

/** The module is shutting down: it acquires no more locks, and waiting calls are cancelled. */
export class LockShutdownError extends LockError {}

/** The module, an option or a decorator is misconfigured. */
export class LockConfigurationError extends LockError {}

define(LockError, 'LockError');
// Fields that an error does not have read as undefined, also for the matchers of tests.
for (const name of ['key', 'mode', 'nodes', 'permits', 'perInstance', 'maxWaiters', 'holder'])
  Object.defineProperty(LockError.prototype, name, fixed(undefined));
define(LockBusyError, 'LockBusyError', 'LOCK_BUSY');
define(LockWaitTimeoutError, 'LockWaitTimeoutError', 'LOCK_WAIT_TIMEOUT');
define(LockLostError, 'LockLostError', 'LOCK_LOST');
define(LockStoreError, 'LockStoreError', 'LOCK_STORE');
define(LockKeyError, 'LockKeyError', 'LOCK_KEY');
define(LockReentryError, 'LockReentryError', 'LOCK_REENTRY');
define(LockNotHeldError, 'LockNotHeldError', 'LOCK_NOT_HELD');
define(LockShutdownError, 'LockShutdownError', 'LOCK_SHUTDOWN');
define(LockConfigurationError, 'LockConfigurationError', 'LOCK_CONFIGURATION');
