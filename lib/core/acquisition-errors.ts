import {
  type LockMode,
  LockBusyError,
  LockClaimedError,
  LockReentryError,
  LockStoreError,
  LockWaitTimeoutError,
} from './lock.errors.js';
import { messageOf } from './reporter.js';

/** Of which lock an error speaks: several keys are joined by `, `. */
export interface LockName {
  readonly key: string;
  readonly mode: LockMode;
}

export function busyError({ key, mode }: LockName, holder: string | undefined): LockBusyError {
  const text =
    `The lock "${key}" (${mode}) is held${holder ? ` by ${holder}` : ''}, and the call was not to wait. Try later, or ` +
    'give it a `waitMs`.';
  return new LockBusyError(text, { key, mode });
}

export function waitTimeoutError(
  { key, mode }: LockName,
  waitedMs: number,
  last: { readonly holder: string | undefined; readonly ahead: number },
): LockWaitTimeoutError {
  const { holder, ahead } = last;
  const text =
    `The lock "${key}" (${mode}) was still busy after ${waitedMs} ms${holder ? `, held by ${holder}` : ''}` +
    `${ahead > 0 ? `, with ${ahead} waiting before` : ''}. Wait longer (\`waitMs\`), or hold it shorter.`;
  return new LockWaitTimeoutError(text, { key, mode, waitedMs, holder });
}

export function unansweredError({ key, mode }: LockName, waitedMs: number, cause: unknown): LockStoreError {
  const text =
    `Redis gave no answer for the lock "${key}" within ${waitedMs} ms` +
    `${cause === undefined ? '' : `: ${messageOf(cause)}`}. Check the connection.`;
  return new LockStoreError(text, { key, mode, cause });
}

export const upgradeError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `The owner that asks to write "${key}" holds it for reading: an upgrade would wait for itself. Release the read ` +
      'lock first, or acquire it for writing from the start.',
    { key, mode },
  );

export const claimedError = ({ key, mode }: LockName): LockClaimedError =>
  new LockClaimedError(`This fire of "${key}" is run, or was run, by another call.`, { key, mode });
