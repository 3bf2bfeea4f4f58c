import { type ArgumentsHost, Catch, type ExceptionFilter, HttpStatus, Inject, Optional } from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';
import {
  LockBusyError,
  type LockError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../core/lock.errors.js';
import { checkDuration } from '../core/lock-options.js';
import { checkOptionNames } from '../core/option-names.js';
import { logger } from './lock-logger.js';

/** The options of `LockExceptionFilter`. */
export interface LockExceptionFilterOptions {
  /**
   * After how many milliseconds the client is told to try again; in the header `Retry-After` it is rounded up to seconds.
   * @default 1_000
   */
  retryAfterMs?: number;
}

/** What a client is told: neither the key nor the holder, which are nobody's business outside. */
export interface LockErrorBody {
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number;
}

/** What is used of the response of express and of fastify. */
interface HttpResponse {
  readonly headersSent?: boolean;
  readonly sent?: boolean;
  /** Of fastify: the response of Node. */
  readonly raw?: { readonly headersSent: boolean; end(): void };
  end(): void;
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

/** What is used of the client of socket.io and of ws. */
interface WsClient {
  readonly readyState?: unknown;
  send?(text: string): void;
  emit(event: string, payload: unknown): void;
}

const LOCKED = 423;

/** Nobody provides it: where Nest builds the filter, it has the options that it has by default. */
const OPTIONS = Symbol.for('nestjs-redis-lock:exception-filter-options');

/**
 * Tells clients what is worth another try: a busy lock is 423 Locked, a missing Redis or an app that shuts down is 503, with
 * `Retry-After`. Over HTTP (express and fastify) it is a response, for microservices and WebSockets an error of the same
 * fields, for GraphQL an error with them as `extensions`. All other errors of locks stay what they are: 500.
 *
 * `app.useGlobalFilters(new LockExceptionFilter())`, or as a provider of `APP_FILTER`, or with `@UseFilters`.
 */
@Catch(LockBusyError, LockWaitTimeoutError, LockStoreError, LockShutdownError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  readonly #retryAfterMs: number;

  /** @throws LockConfigurationError */
  constructor(@Optional() @Inject(OPTIONS) options: LockExceptionFilterOptions = {}) {
    checkOptionNames(options, ['retryAfterMs'], 'LockExceptionFilter');
    const { retryAfterMs = 1_000 } = options;
    checkDuration(retryAfterMs, 'retryAfterMs', { min: 0, max: 24 * 3_600_000 });
    this.#retryAfterMs = retryAfterMs;
  }

  catch(error: LockError, host: ArgumentsHost): void | Observable<never> {
    const body = this.#bodyOf(error);
    switch (host.getType<'http' | 'rpc' | 'ws' | 'graphql'>()) {
      case 'http':
        return respond(host.switchToHttp().getResponse(), body);
      case 'ws':
        return tell(host.switchToWs().getClient(), body);
      case 'rpc':
        return throwError(() => ({ status: 'error', ...body }));
      default:
        throw graphqlError(error, body);
    }
  }

  #bodyOf(error: LockError): LockErrorBody {
    // The client is not told what is wrong with Redis; whoever runs the app has to know.
    if (error instanceof LockStoreError) logger.error(error.message);
    const isBusy = error instanceof LockBusyError || error instanceof LockWaitTimeoutError;
    return {
      statusCode: isBusy ? LOCKED : HttpStatus.SERVICE_UNAVAILABLE,
      error: isBusy ? 'Locked' : 'Service Unavailable',
      code: error.code,
      message: isBusy ? 'This is in use at the moment; try again.' : 'Not available at the moment; try again.',
      retryAfterMs: this.#retryAfterMs,
    };
  }
}

function respond(response: HttpResponse, body: LockErrorBody): void {
  // The answer has begun: nothing can be told any more, but that it is over.
  if (response.headersSent || response.sent || response.raw?.headersSent) {
    (response.raw ?? response).end();
    return;
  }
  const seconds = String(Math.ceil(body.retryAfterMs / 1_000));
  response.status(body.statusCode).header('Retry-After', seconds).send(body);
}

/** As Nest's own filter does: a socket of ws has an `emit` that nobody hears. */
function tell(client: WsClient, body: LockErrorBody): void {
  const payload = { status: 'error', ...body };
  if (typeof client.readyState === 'number' && client.send) {
    client.send(JSON.stringify({ event: 'exception', data: payload }));
  } else {
    client.emit('exception', payload);
  }
}

/** GraphQL takes the `extensions` of whatever is thrown. */
function graphqlError(cause: LockError, { message, error, ...extensions }: LockErrorBody): Error {
  return Object.assign(new Error(message, { cause }), { extensions: { ...extensions, error } });
}
