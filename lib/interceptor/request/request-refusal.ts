import { type ExecutionContext, HttpException } from '@nestjs/common';
import { type Observable, catchError, defer, throwError } from 'rxjs';
import { LockConfigurationError, LockKeyError, passFor } from '../../core/lock.errors.js';
import { answerTo, checkStatus, isBusy, RequestKeyException, tellRetryAfter } from './lock-answer.js';
import { type LockedOptions } from '../locked-call.js';

interface StatusOptions extends Pick<LockedOptions, 'ifBusy'> {
  readonly status?: number;
}

/**
 * Checks the `status` of a request for a busy lock.
 * @throws LockConfigurationError that begins with `where`
 */
export function checkRequestStatus({ status, ifBusy }: StatusOptions, where: string): void {
  if (status === undefined) return;
  try {
    checkStatus(status);
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${(error as Error).message}`, { cause: error });
  }
  if (ifBusy !== 'skip' && typeof ifBusy !== 'function') return;
  const text = `${where}: \`status: ${status}\` has no effect beside an \`ifBusy\` that answers; leave one of them out.`;
  throw new LockConfigurationError(text);
}

/**
 * Runs a request that calls back when it has its lock, or goes on without one. What keeps it from that says how it is to be
 * answered; what its handler fails with stays what it is.
 */
export function answered(
  context: ExecutionContext,
  status: number | undefined,
  run: (onEntered: () => void) => Observable<unknown>,
): Observable<unknown> {
  return defer(() => {
    let isInside = false;
    const onEntered = (): void => void (isInside = true);
    const fail = (error: unknown) => throwError(() => (isInside ? error : refusalOf(error, status, context)));
    return run(onEntered).pipe(catchError(fail));
  });
}

/**
 * For a key that cannot be filled, and for a busy lock where there is a `status` for it, that is an error of HTTP,
 * which Nest answers where no filter does, and which tells nothing of the lock; for filters it is the error of the
 * lock.
 */
function refusalOf(error: unknown, status: number | undefined, context: ExecutionContext): unknown {
  if (error instanceof LockKeyError) return passFor(new RequestKeyException(error), error);
  if (status === undefined || !isBusy(error)) return error;
  const body = answerTo(error, { status });
  if (context.getType() === 'http') tellRetryAfter(context.switchToHttp().getResponse(), body);
  return passFor(new HttpException(body, status, { cause: error }), error);
}
