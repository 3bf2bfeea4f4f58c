import {
  type CallHandler,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { type Observable, catchError, concatMap, defer, from, of, tap, throwError } from 'rxjs';
import { LockConfigurationError, LockKeyError, type LockMode, passFor } from '../../core/lock.errors.js';
import { readOptions } from '../../core/read-options.js';
import { messageOf } from '../../core/reporter.js';
import { describeValue } from '../../keys/lock-key.js';
import { type KeySpec, describeKeySpec } from '../../keys/key-spec.js';
import { getLockInterceptorToken } from '../../redis-lock.tokens.js';
import { logger } from '../lock-logger.js';
import { type LockedCall, checkedInterceptor, compileCall } from '../locked-call.js';
import { LOCKED_OPTIONS, type LockedOptions } from '../locked.options.js';
import { isThenable, refuseOpenBody } from '../streams/stream-kind.js';
import { answerTo, isBusy, RequestKeyException, STATUS, tellRetryAfter } from './lock-exception.filter.js';
import { markRequestLock } from './unreached-locks.js';

/** The options of `LockInterceptor.for`. */
export interface RequestLockOptions extends Omit<
  LockedOptions,
  'oncePer' | 'job' | 'spreadMs' | 'rerunOnLoss' | 'ifBusy'
> {
  /**
   * As with the decorators, except `share`: each request has its own answer.
   * @default 'wait'
   */
  ifBusy?: Exclude<LockedOptions['ifBusy'], 'share'>;
  /**
   * `write` excludes all others, `read` shares with other readers.
   * @default 'write'
   */
  mode?: LockMode;
  /**
   * The HTTP status that answers a busy lock, from 400 to 599, with or without the `LockExceptionFilter`.
   * @default that of the `LockExceptionFilter`: 423, and 429 when no permit is free (of all, or of this instance), or the queue is full (`maxWaiters`)
   */
  status?: number;
}

/** The options of decorators that do not apply to a request. */
const JOB_OPTIONS = ['oncePer', 'job', 'spreadMs', 'rerunOnLoss'] satisfies (keyof LockedOptions)[];

/** Runs a handler of Nest under a lock: the `LockInterceptor` of a connection. */
interface HandlerRunner {
  around(call: LockedCall, args: readonly unknown[], proceed: () => Observable<unknown>): Observable<unknown>;
}

/** Makes the class of an interceptor that locks by a key of the request; see `LockInterceptor.for`. */
export function requestLock(key: KeySpec, options: RequestLockOptions): Type<NestInterceptor> {
  const where = `LockInterceptor.for('${describeKeySpec(key)}')`;
  const { status, ...compiled } = compileRequest(key, options, where);
  const token = getLockInterceptorToken(compiled.options.connection);
  const reported = new Set<string>();

  @Injectable()
  class RequestLockInterceptor implements NestInterceptor {
    constructor(@Inject(token) private readonly locks: HandlerRunner) {}

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const [handler, type] = [context.getHandler(), context.getClass<object>()];
      const handlerName = `${type.name}.${handler.name}`;
      const label = { where: handlerName, template: compiled.template };
      const call = { ...compiled, where: handlerName, label, name: handler.name, method: handler };
      checkBuiltByNest(this.locks, where);
      const proceed = () =>
        next.handle().pipe(
          concatMap(settled),
          tap((value) => refuseOpenBody(value, call.where)),
        );
      const run = (onEntered: () => void) => this.locks.around(call, context.getArgs(), () => (onEntered(), proceed()));
      return answered(context, status, run, () => reportRoute(call, context, reported));
    }
  }
  markRequestLock(RequestLockInterceptor, token);
  return RequestLockInterceptor;
}

/** Checks and compiles the parts that are the same for all requests. */
function compileRequest(key: KeySpec, given: RequestLockOptions, where: string) {
  const known = [...Object.keys(LOCKED_OPTIONS), 'mode', 'status'];
  const own: RequestLockOptions = named(where, () => readOptions(given, known, undefined, 'lock option'));
  const { mode = 'write', status, ...options } = own;
  const forJobs = JOB_OPTIONS.find((name) => name in options);
  if (forJobs) throw new LockConfigurationError(`${where}: \`${forJobs}\` is for scheduled jobs; use it with @Locked.`);
  if ((options as LockedOptions).ifBusy === 'share') {
    const advice = "put @Locked with `ifBusy: 'share'` on the method of a service that the handler calls";
    throw new LockConfigurationError(`${where}: each request has its own answer, which cannot be shared; ${advice}.`);
  }
  // Nest awaits the answer to a request, so the call counts as returning a promise.
  const compiled = compileCall(key, options, { mode, kind: 'promise', where });
  checkRequestStatus(own, where);
  return { ...compiled, status };
}

/** @throws LockConfigurationError that begins with `where` */
function named<T>(where: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${messageOf(error)}`, { cause: error });
  }
}

/** @throws LockConfigurationError that begins with `where` */
function checkRequestStatus({ status, ifBusy }: RequestLockOptions, where: string): void {
  if (status === undefined) return;
  named(where, () => STATUS.check(status, 'status'));
  if (ifBusy !== 'skip' && typeof ifBusy !== 'function') return;
  const text = `${where}: \`status: ${status}\` has no effect with an \`ifBusy\` that answers; leave one of them out.`;
  throw new LockConfigurationError(text);
}

function checkBuiltByNest(locks: HandlerRunner | undefined, where: string): void {
  if (locks) return void checkedInterceptor(locks, where);
  const advice = 'Give the class to @UseInterceptors, or provide it as APP_INTERCEPTOR';
  throw new LockConfigurationError(`${where}: the interceptor was not built by Nest, so it has no locks. ${advice}.`);
}

/** An interceptor may emit a promise, which Nest awaits at the end. Other values are passed on at once: an error may follow them. */
const settled = (value: unknown): Observable<unknown> => (isThenable(value) ? from(value) : of(value));

/**
 * Runs a request that calls back when it has its lock, or continues without one. An earlier error is turned into the answer
 * to the client; an error of the handler stays unchanged.
 */
function answered(
  context: ExecutionContext,
  status: number | undefined,
  run: (onEntered: () => void) => Observable<unknown>,
  onKeyError: () => void,
): Observable<unknown> {
  return defer(() => {
    let isInside = false;
    const onEntered = (): void => void (isInside = true);
    const fail = (error: unknown) => {
      if (isInside) return throwError(() => error);
      if (error instanceof LockKeyError) onKeyError();
      return throwError(() => refusalOf(error, status, context));
    };
    return run(onEntered).pipe(catchError(fail));
  });
}

/**
 * Warns once of a handler whose route provides no text for a placeholder, such as a wildcard. This depends on the route and not on
 * the client: each request would be answered with 400, and only the client would notice.
 */
function reportRoute({ where, template }: LockedCall, context: ExecutionContext, reported: Set<string>): void {
  if (context.getType() !== 'http' || reported.has(where)) return;
  const { params = {} } = context.switchToHttp().getRequest<{ params?: Readonly<Record<string, unknown>> }>();
  const names = Array.from(template.matchAll(/<0\.params\.(?<name>[^.<>]+)>/gu), ({ groups }) => groups!['name']!);
  const name = names.find((one) => typeof params[one] !== 'string');
  if (name === undefined) return;
  reported.add(where);
  const given = name in params ? name : (Object.keys(params)[0] ?? name);
  logger.warn(
    `${where}: <0.params.${name}> of '${template}' is ${describeValue(params[name])} on this route, so its requests are answered with ` +
      `400. Write a key function: LockInterceptor.for(({ params }) => lockKey\`file:\${[params['${given}']].flat().join('/')}\`).`,
  );
}

/**
 * Returns an HTTP error for a key that cannot be filled, and for a busy lock when the options have a `status`. Nest answers it
 * without any filter, and it reveals nothing of the lock; filters receive the error of the lock.
 */
function refusalOf(error: unknown, status: number | undefined, context: ExecutionContext): unknown {
  if (error instanceof LockKeyError) return passFor(new RequestKeyException(error), error);
  if (status === undefined || !isBusy(error)) return error;
  const body = answerTo(error, { status });
  if (context.getType() === 'http') tellRetryAfter(context.switchToHttp().getResponse(), body);
  return passFor(new HttpException(body, status, { cause: error }), error);
}
