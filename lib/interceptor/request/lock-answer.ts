import { STATUS_CODES } from 'node:http';
import { HttpException, HttpStatus } from '@nestjs/common';
import {
  LockBusyError,
  LockConfigurationError,
  type LockError,
  LockKeyError,
  LockWaitTimeoutError,
} from '../../core/lock.errors.js';

/** What a client is told: neither the key nor the holder, which are nobody's business outside. */
export interface LockErrorBody {
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly message: string;
  /** Left out where another try would end as this one. */
  readonly retryAfterMs?: number;
}

/** What is used of the response of express and of fastify. */
export interface HttpResponse {
  readonly headersSent?: boolean;
  readonly sent?: boolean;
  /** Of fastify: the response of Node. */
  readonly raw?: { readonly headersSent: boolean; end(): void };
  end(): void;
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

const LOCKED = 423;
const DEFAULT_RETRY_AFTER_MS = 1_000;

/** How busy locks are answered. */
interface AnswerOptions {
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** What a client is told of an error: that of the request itself comes before the `status` that is asked for. */
export function answerTo(
  error: LockError,
  { status, retryAfterMs = DEFAULT_RETRY_AFTER_MS }: AnswerOptions,
): LockErrorBody {
  const told = (statusCode: number, message: string) => {
    return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', code: error.code, message };
  };
  if (error instanceof LockKeyError) {
    return told(HttpStatus.BAD_REQUEST, 'The request lacks a value that it has to have, or has a wrong one.');
  }
  if (isBusy(error)) {
    const byDefault = error.permits === undefined ? LOCKED : HttpStatus.TOO_MANY_REQUESTS;
    const own = error instanceof HttpException ? error.getStatus() : undefined;
    return { ...told(own ?? status ?? byDefault, 'This is in use at the moment; try again.'), retryAfterMs };
  }
  return { ...told(HttpStatus.SERVICE_UNAVAILABLE, 'Not available at the moment; try again.'), retryAfterMs };
}

/** Tells when to try again, unless the answer has begun: then nothing can be told any more, but that it is over. */
export function tellRetryAfter(response: HttpResponse, { retryAfterMs }: LockErrorBody): void {
  if (retryAfterMs === undefined || hasBegun(response)) return;
  response.header('Retry-After', String(Math.ceil(retryAfterMs / 1_000)));
}

export const hasBegun = ({ headersSent, sent, raw }: HttpResponse): boolean =>
  Boolean(headersSent || sent || raw?.headersSent);

/** @throws LockConfigurationError */
export function checkStatus(status: unknown): void {
  if (typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599) return;
  const got = typeof status === 'number' ? `${status}` : `a value of type ${typeof status}`;
  throw new LockConfigurationError(`Expected \`status\` to be a status of HTTP from 400 to 599, got ${got}.`);
}

/** The key of a request cannot be filled, or used: the request is wrong, and not the app. */
export class RequestKeyException extends HttpException {
  constructor(cause: LockKeyError) {
    const body = answerTo(cause, {});
    super(body, body.statusCode, { cause });
  }
}

export const isBusy = (error: unknown): error is LockBusyError | LockWaitTimeoutError =>
  error instanceof LockBusyError || error instanceof LockWaitTimeoutError;
