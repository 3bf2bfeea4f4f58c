import { STATUS_CODES } from 'node:http';
import { HttpException, HttpStatus } from '@nestjs/common';
import {
  LockBusyError,
  LockConfigurationError,
  type LockError,
  LockKeyError,
  LockWaitTimeoutError,
} from '../../core/lock.errors.js';

/** The answer to a client. It has neither the key nor the holder, which concern nobody outside. */
export interface LockErrorBody {
  readonly statusCode: number;
  readonly error: string;
  readonly code: string;
  readonly message: string;
  /** Left out when another try would fail in the same way. */
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

/** How to answer busy locks. */
interface AnswerOptions {
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** Builds the answer to an error. The status of a request's own exception comes before the `status` of the options. */
export function answerTo(
  error: LockError,
  { status, retryAfterMs = DEFAULT_RETRY_AFTER_MS }: AnswerOptions,
): LockErrorBody {
  const body = (statusCode: number, message: string) => {
    return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', code: error.code, message };
  };
  if (error instanceof LockKeyError) {
    return body(HttpStatus.BAD_REQUEST, 'The request lacks a value that it has to have, or has a wrong one.');
  }
  if (isBusy(error)) {
    const isLimited = error.permits !== undefined || error.perInstance !== undefined;
    const isFull = isLimited || (error instanceof LockBusyError && error.maxWaiters !== undefined);
    const byDefault = isFull ? HttpStatus.TOO_MANY_REQUESTS : LOCKED;
    const own = error instanceof HttpException ? error.getStatus() : undefined;
    return { ...body(own ?? status ?? byDefault, 'This is in use at the moment; try again.'), retryAfterMs };
  }
  return { ...body(HttpStatus.SERVICE_UNAVAILABLE, 'Not available at the moment; try again.'), retryAfterMs };
}

/** The status codes of gRPC: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE. */
const GRPC_STATUS: Record<number, number> = {
  [HttpStatus.BAD_REQUEST]: 3,
  [HttpStatus.TOO_MANY_REQUESTS]: 8,
  [HttpStatus.SERVICE_UNAVAILABLE]: 14,
};
const ABORTED = 10;

/** The status of gRPC that an answer has. */
export const grpcStatusOf = ({ statusCode }: LockErrorBody): number => GRPC_STATUS[statusCode] ?? ABORTED;

/** Sets `Retry-After`, unless the response has begun: its headers are sent by then. */
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
  throw new LockConfigurationError(`Expected \`status\` to be an HTTP status from 400 to 599, got ${got}.`);
}

/** The key of a request cannot be filled or used: the request is wrong, not the app. */
export class RequestKeyException extends HttpException {
  constructor(cause: LockKeyError) {
    const body = answerTo(cause, {});
    super(body, body.statusCode, { cause });
  }
}

export const isBusy = (error: unknown): error is LockBusyError | LockWaitTimeoutError =>
  error instanceof LockBusyError || error instanceof LockWaitTimeoutError;
