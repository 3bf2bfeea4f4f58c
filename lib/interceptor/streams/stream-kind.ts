import { type Readable } from 'node:stream';
import { observable } from 'rxjs';
import { LockConfigurationError } from '../../core/lock.errors.js';

/** The kind of result that a call of a decorated method returns at once. */
export type ResultKind = 'promise' | 'observable' | 'async-iterable';

export interface ObservableLike {
  subscribe(observer: unknown): unknown;
  pipe(...operators: unknown[]): unknown;
}

/**
 * The kind of result that a call must return before its lock is acquired. It follows from the kind of the function and from
 * `design:returntype`, because the method itself has not been called yet.
 */
export function resultKindOf(method: Function, returnType: unknown): ResultKind {
  if (tagOf(method) === '[object AsyncGeneratorFunction]') return 'async-iterable';
  if (isAsyncFunction(method)) return 'promise';
  return typeof returnType === 'function' && isObservableLike(returnType.prototype) ? 'observable' : 'promise';
}

/** Whether a call that returns a promise may be meant as a stream: neither the function nor its type excludes it. */
export function mayBeStream(method: Function, returnType: unknown): boolean {
  return resultKindOf(method, returnType) === 'promise' && !isAsyncFunction(method) && returnType !== Promise;
}

/** A promise or another thenable, which may be lazy and begin its work only when `then` is called. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return has(value, 'then');
}

/** An Observable of any copy of rxjs. */
export function isObservableLike(value: unknown): value is ObservableLike {
  return has(value, 'subscribe') && has(value, 'pipe');
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return has(value, Symbol.asyncIterator);
}

/**
 * Refuses a stream that continues after the method and whose end cannot be observed, and closes it. It cannot be wrapped, because
 * the code of Node or Nest that reads it accepts no substitute. Call this before `finishStream`, since such a stream may also
 * be iterable.
 */
export function refuseStream(result: unknown, where: string): void {
  const kind = streamKindOf(result);
  if (kind === null) return;
  discard(result);
  throw new LockConfigurationError(
    `${where} is locked and returned ${kind}, which continues after the lock is released. Return an Observable of rxjs, an ` +
      'async iterable (`async function*`), or a promise of the whole result.',
  );
}

/** Refuses a stream as the result of a call whose result others share, and closes it. */
export function refuseSharedStream(result: unknown, where: string): never {
  discard(result);
  throw new LockConfigurationError(
    `${where} returned a stream, which is read once, but \`ifBusy: 'share'\` gives its result to several calls. Return a ` +
      "promise of the whole result, or use `ifBusy: 'wait'`.",
  );
}

/**
 * Refuses a body that Nest sends piece by piece after the handler, by itself or inside a plain object, and closes it: the
 * lock of a request ends with the handler and the interceptors.
 */
export function refuseOpenBody(body: unknown, where: string): void {
  const open = [body, ...partsOf(body)].filter((one) => openKindOf(one) !== null);
  if (open.length === 0) return;
  const kind = openKindOf(open[0]);
  for (const one of open) discard(one);
  throw new LockConfigurationError(
    `${where} is locked by LockInterceptor.for() and returned ${kind}, which continues after the lock is released. Return an ` +
      'Observable of rxjs or the whole result; or put @Locked on the method, which holds the lock until an async iterable ends.',
  );
}

function partsOf(body: unknown): unknown[] {
  if (typeof body !== 'object' || body === null) return [];
  return Object.getPrototypeOf(body) === Object.prototype ? Object.values(body) : [];
}

function openKindOf(value: unknown): string | null {
  if (isAsyncIterable(value) && streamKindOf(value) === null) return 'an async iterable';
  return isWebResponse(value) ? 'a Response with a stream' : streamKindOf(value);
}

/** Closes the source of a body that is not sent, such as an open file; no other code does. */
function discard(body: unknown): void {
  const source = has(body, 'getStream') ? (body as { getStream(): unknown }).getStream() : body;
  if (has(source, 'destroy')) {
    const stream = source as Readable;
    // A write-only stream may be the response, which other code uses.
    if (!has(stream, 'read')) return;
    // It may still fail, and an error without a listener would end the process.
    stream.on('error', () => undefined);
    stream.destroy();
    return;
  }
  const closed = async (): Promise<unknown> => {
    if (isWebResponse(source)) return source.body.cancel();
    return has(source, 'getReader')
      ? (source as ReadableStream).cancel()
      : (source as Partial<AsyncGenerator>).return?.(undefined);
  };
  closed().catch(() => undefined);
}

function isWebResponse(value: unknown): value is { readonly body: ReadableStream } {
  return has(value, 'arrayBuffer') && has((value as { body?: unknown }).body, 'getReader');
}

export const isOpenStream = (value: unknown): boolean => streamKindOf(value) !== null;

function streamKindOf(value: unknown): string | null {
  if (isSentResponse(value)) return null;
  if (has(value, 'getStream')) return 'a StreamableFile';
  if (has(value, 'getReader')) return 'a ReadableStream';
  if (has(value, 'pipe')) return has(value, 'on') && !has(value, 'subscribe') ? 'a Node stream' : null;
  return has(value, 'subscribe') && has(value, observable) ? 'an observable of another library' : null;
}

/** Whether it is the response of a handler that has sent its own answer: `return response.send(body)`. */
const isSentResponse = (value: unknown): boolean =>
  has(value, 'writeHead') && (value as { readonly writableEnded?: boolean }).writableEnded === true;

const tagOf = (method: Function): string => Object.prototype.toString.call(method);
const isAsyncFunction = (method: Function): boolean => tagOf(method) === '[object AsyncFunction]';

/** A name that no object has, except a mock or another proxy that answers to every name. */
const UNKNOWN = 'isNoStream';

function has(value: unknown, name: PropertyKey): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  const methods = value as Record<PropertyKey, unknown>;
  try {
    return typeof methods[name] === 'function' && typeof methods[UNKNOWN] !== 'function';
  } catch {
    // A getter or a proxy may throw. The caller gets the result unchanged.
    return false;
  }
}
