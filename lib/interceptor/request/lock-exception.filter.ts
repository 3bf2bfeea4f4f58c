import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  HttpStatus,
  Inject,
  Optional,
} from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';
import {
  LockBusyError,
  type LockError,
  LockKeyError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../core/lock.errors.js';
import { checkOptions, duration, kindOf, option, type OptionTable } from '../../core/option-checks.js';
import { logger } from '../lock-logger.js';

/** The answer to a client. It contains neither the key nor the holder, which are internal. */
interface LockErrorBody {
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly message: string;
  /** Left out when a retry would fail in the same way. */
  readonly retryAfterMs?: number;
}

/** The parts of an express or fastify response that we use. */
export interface HttpResponse {
  readonly headersSent?: boolean;
  readonly sent?: boolean;
  /** With fastify: the response of Node. */
  readonly raw?: { readonly headersSent: boolean; end(): void };
  end(): void;
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

const LOCKED = 423;
const DEFAULT_RETRY_AFTER_MS = 1_000;

/** Builds the answer to an error. The status of a request's own exception has priority over the `status` of the options. */
export function answerTo(
  error: LockError,
  { status, retryAfterMs = DEFAULT_RETRY_AFTER_MS }: LockExceptionFilterOptions,
): LockErrorBody {
  const body = (statusCode: number, message: string) => {
    return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', code: error.code, message };
  };
  if (error instanceof LockKeyError) {
    return body(HttpStatus.BAD_REQUEST, 'A required value is missing or invalid.');
  }
  if (isBusy(error)) {
    const isLimited = error.permits !== undefined || error.perInstance !== undefined;
    const isFull = isLimited || (error instanceof LockBusyError && error.maxWaiters !== undefined);
    const byDefault = isFull ? HttpStatus.TOO_MANY_REQUESTS : LOCKED;
    const own = error instanceof HttpException ? error.getStatus() : undefined;
    return { ...body(own ?? status ?? byDefault, 'This is in use at the moment; try again.'), retryAfterMs };
  }
  // An error of another copy of the package may lack it.
  const { retryable = true }: Partial<Pick<LockStoreError, 'retryable'>> = error instanceof LockStoreError ? error : {};
  if (!retryable) return body(HttpStatus.SERVICE_UNAVAILABLE, 'Not available at the moment.');
  return { ...body(HttpStatus.SERVICE_UNAVAILABLE, 'Not available at the moment; try again.'), retryAfterMs };
}

/** The status codes of gRPC: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE. */
const GRPC_STATUS: Record<number, number> = {
  [HttpStatus.BAD_REQUEST]: 3,
  [HttpStatus.TOO_MANY_REQUESTS]: 8,
  [HttpStatus.SERVICE_UNAVAILABLE]: 14,
};
const ABORTED = 10;

const grpcStatusOf = ({ statusCode }: LockErrorBody): number => GRPC_STATUS[statusCode] ?? ABORTED;

/** Sets `Retry-After`, unless the headers were sent. */
export function tellRetryAfter(response: HttpResponse, { retryAfterMs }: LockErrorBody): void {
  if (retryAfterMs === undefined || hasBegun(response)) return;
  response.header('Retry-After', String(Math.ceil(retryAfterMs / 1_000)));
}

const hasBegun = ({ headersSent, sent, raw }: HttpResponse): boolean =>
  Boolean(headersSent || sent || raw?.headersSent);

export const STATUS = kindOf(
  'an HTTP status from 400 to 599',
  (value) => Number.isInteger(value) && value >= 400 && value <= 599,
);

/** The key of a request cannot be filled or used: the request is wrong, not the app. */
export class RequestKeyException extends HttpException {
  constructor(cause: LockKeyError) {
    const body = answerTo(cause, {});
    super(body, body.statusCode, { cause });
  }
}

export const isBusy = (error: unknown): error is LockBusyError | LockWaitTimeoutError =>
  error instanceof LockBusyError || error instanceof LockWaitTimeoutError;

/** The options of `LockExceptionFilter`. */
export interface LockExceptionFilterOptions {
  /**
   * When the client should try again, in milliseconds; in the header `Retry-After` it is rounded up to seconds.
   * @default 1_000
   */
  retryAfterMs?: number;
  /**
   * The HTTP status that answers a busy lock, from 400 to 599, unless `LockInterceptor.for` has another one.
   * @default 423; 429 when no permit is free (of all, or of this instance), or the queue is full (`maxWaiters`)
   */
  status?: number;
}

const FILTER_OPTIONS = {
  retryAfterMs: option(duration({ min: 0, max: 24 * 3_600_000 })),
  status: option(STATUS),
} satisfies OptionTable<LockExceptionFilterOptions>;

/** The parts of a socket.io or ws client that we use. */
interface WsClient {
  readonly readyState?: unknown;
  send?(text: string): void;
  emit(event: string, payload: unknown): void;
}

/** Never provided: when Nest builds the filter, the filter has its default options. */
const OPTIONS = Symbol.for('nestjs-redis-lock:exception-filter-options');

/**
 * Answers lock errors with a status: 423 for a busy lock, 429 when no permit is free or the queue is full (`maxWaiters`), 503 for
 * an unreachable Redis or an app that shuts down, all with `Retry-After` (unless a retry cannot help); 400 for a request that cannot fill the key of
 * `LockInterceptor.for`; otherwise 500. It supports HTTP, microservices, WebSockets, gRPC and GraphQL, each with its kind of error.
 * Use it with `app.useGlobalFilters(new LockExceptionFilter())`, as a provider of `APP_FILTER`, or with `@UseFilters`.
 */
@Catch(LockBusyError, LockWaitTimeoutError, LockStoreError, LockShutdownError, RequestKeyException)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  readonly #options: LockExceptionFilterOptions;

  /** @throws LockConfigurationError */
  constructor(@Optional() @Inject(OPTIONS) options: LockExceptionFilterOptions = {}) {
    this.#options = checkOptions(options, FILTER_OPTIONS, 'LockExceptionFilter');
  }

  catch(error: LockError, host: ArgumentsHost): void | Observable<never> {
    const body = this.#bodyOf(error);
    switch (host.getType<'http' | 'rpc' | 'ws' | 'graphql'>()) {
      case 'http':
        return respond(host.switchToHttp().getResponse(), body);
      case 'ws':
        return emitTo(host.switchToWs().getClient(), body);
      case 'rpc':
        return throwError(() => ({
          status: 'error',
          ...(isGrpc(host) ? { ...body, code: grpcStatusOf(body) } : body),
        }));
      default:
        throw graphqlError(error, body);
    }
  }

  #bodyOf(error: LockError): LockErrorBody {
    // The details of an error of Redis or of a template are for the operator, not for the client.
    if (error instanceof LockStoreError) logger.error(error.message);
    if (error instanceof RequestKeyException) logger.debug((error.cause as LockError).message);
    return answerTo(error, this.#options);
  }
}

function respond(response: HttpResponse, body: LockErrorBody): void {
  if (hasBegun(response)) {
    (response.raw ?? response).end();
    return;
  }
  tellRetryAfter(response, body);
  response.status(body.statusCode).send(body);
}

/** Does the same as Nest's own filter: the `emit` of a ws socket does not send. */
function emitTo(client: WsClient, body: LockErrorBody): void {
  const payload = { status: 'error', ...body };
  if (typeof client.readyState === 'number' && client.send) {
    client.send(JSON.stringify({ event: 'exception', data: payload }));
  } else {
    client.emit('exception', payload);
  }
}

/** Nest passes the call of `@grpc/grpc-js` to a handler. A client of gRPC gets the message and the `code`, if it is a number. */
const isGrpc = (host: ArgumentsHost): boolean =>
  host
    .getArgs<unknown[]>()
    .some((arg) => typeof (arg as { sendMetadata?: unknown } | null)?.sendMetadata === 'function');

/** GraphQL passes on the `extensions` of any error. */
function graphqlError(cause: LockError, { message, error, ...extensions }: LockErrorBody): Error {
  return Object.assign(new Error(message, { cause }), { extensions: { ...extensions, error } });
}
