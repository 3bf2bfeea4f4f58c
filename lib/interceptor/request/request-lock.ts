import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  type Type,
  HttpException,
} from '@nestjs/common';
import { type Observable, concatMap, from, of, tap, catchError, defer, throwError } from 'rxjs';
import { LockConfigurationError, LockKeyError, passFor, type LockMode } from '../../core/lock.errors.js';
import { checkIsObject } from '../../core/lock.options.js';
import { type KeySpec, compileKeySpec, describeKeySpec } from '../../keys/key-spec.js';
import { getLockInterceptorToken } from '../../redis-lock.tokens.js';
import { checkLockedOptions, type LockedOptions } from '../locked.options.js';
import type { LockInterceptor } from '../lock.interceptor.js';
import { type LockedCall } from '../locked-call.js';
import { markRequestLock } from './unreached-locks.js';
import { isThenable, refuseOpenBody } from '../streams/stream-kind.js';
import { answerTo, checkStatus, isBusy, RequestKeyException, tellRetryAfter } from './lock-answer.js';

/** The options of `LockInterceptor.for`. */
export interface RequestLockOptions extends Omit<LockedOptions, 'oncePer' | 'spreadMs' | 'rerunOnLoss'> {
  /**
   * `write` excludes everybody, `read` shares with other readers.
   * @default 'write'
   */
  mode?: LockMode;
  /**
   * The status of HTTP that a busy lock is answered with, from 400 to 599, with or without the `LockExceptionFilter`.
   * @default that of the `LockExceptionFilter`: 423, and 429 where all permits are taken
   */
  status?: number;
}

/** An interceptor may give a promise as a value, which Nest awaits in the end. Others pass at once: an error may follow them. */
const settled = (value: unknown): Observable<unknown> => (isThenable(value) ? from(value) : of(value));

function checkBuiltByNest(locks: LockInterceptor | undefined, where: string): void {
  if (locks) return;
  const advice = 'Give the class to @UseInterceptors, or provide it as APP_INTERCEPTOR';
  throw new LockConfigurationError(`${where}: the interceptor was not built by Nest, so it has no locks. ${advice}.`);
}

const OF_JOBS = ['oncePer', 'spreadMs', 'rerunOnLoss'] as const;

/** What is the same for all requests. */
type RequestCall = Pick<LockedCall, 'template' | 'keyOf' | 'options'>;

function callOf(key: KeySpec, given: RequestLockOptions, where: string): RequestCall {
  checkIsObject(given, where);
  const { mode = 'write', status: _status, ...options } = given;
  const forJobs = OF_JOBS.find((name) => name in options);
  if (forJobs) throw new LockConfigurationError(`${where}: \`${forJobs}\` is for scheduled jobs; use it with @Locked.`);
  checkLockedOptions(options, { mode, kind: 'promise', where });
  checkRequestStatus(given, where);
  return { template: describeKeySpec(key), keyOf: compileKeySpec(key, where), options: { ...options, mode } };
}

/** Makes the class of an interceptor that locks by a key of the request; see `LockInterceptor.for`. */
export function requestLock(key: KeySpec, options: RequestLockOptions): Type<NestInterceptor> {
  const where = `LockInterceptor.for('${describeKeySpec(key)}')`;
  const call = callOf(key, options, where);
  const token = getLockInterceptorToken(call.options.connection);

  @Injectable()
  class RequestLockInterceptor implements NestInterceptor {
    constructor(@Inject(token) private readonly locks: LockInterceptor) {}

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const [handler, type] = [context.getHandler(), context.getClass<object>()];
      const name = `${type.name}.${handler.name}`;
      checkBuiltByNest(this.locks, where);
      const proceed = () =>
        next.handle().pipe(
          concatMap(settled),
          tap((value) => refuseOpenBody(value, name)),
        );
      return answered(context, options.status, (onEntered) =>
        this.locks.around(
          { ...call, kind: 'observable', where: name, name: handler.name, method: handler },
          context.getArgs(),
          () => (onEntered(), proceed()),
        ),
      );
    }
  }
  markRequestLock(RequestLockInterceptor, token);
  return RequestLockInterceptor;
}

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
