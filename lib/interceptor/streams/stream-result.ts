import { Observable, observable, of } from 'rxjs';
import { LockNotHeldError } from '../../core/lock.errors.js';
import { isAsyncIterable, isObservableLike } from './stream-kind.js';
import { LockedIterator, iterateUnder } from './stream-iterator.js';
import { type StreamLock } from './stream-lock.js';
import { HeldSubscription } from './stream-observable.js';

/**
 * For a method that returned a promise of an Observable or an async iterable: returns one that keeps the lock, which is
 * already held, until it ends; null for any other result. There is only one lock, so the result can be consumed once.
 * Call `refuseStream` first.
 */
export function finishStream(lock: StreamLock, result: unknown): Observable<unknown> | AsyncIterable<unknown> | null {
  if (isObservableLike(result)) return heldObservable(lock, result);
  return isAsyncIterable(result) ? heldIterable(lock, result) : null;
}

function heldObservable(lock: StreamLock, result: unknown): Observable<unknown> {
  const take = once('subscribed to');
  return new Observable((subscriber) => {
    take();
    new HeldSubscription(lock, subscriber).start(() => result);
  });
}

/** The iterable is not its own iterator: an iterator returns itself each time it is iterated. */
function heldIterable(lock: StreamLock, result: AsyncIterable<unknown>): AsyncGenerator<unknown, unknown, unknown> {
  const take = once('iterated');
  const iterator = new LockedIterator(
    null,
    iterateUnder(lock, () => result),
  );
  return {
    next: (value?: unknown) => iterator.next(value),
    return: (value) => iterator.return(value),
    throw: (error) => iterator.throw(error),
    [Symbol.asyncDispose]: () => iterator[Symbol.asyncDispose](),
    [Symbol.asyncIterator]: () => {
      take();
      return iterator;
    },
  };
}

/** Returns a check that passes once. */
function once(done: string): () => void {
  let taken = false;
  return () => {
    if (taken) {
      const text = `This result of a locked method was already ${done}, and its lock has ended. Call the method again.`;
      throw new LockNotHeldError(text);
    }
    taken = true;
  };
}

/**
 * Makes a promise also an async iterable and an Observable. A method of unknown type may return either, which is known only after
 * it is called, under its lock. Its caller iterates the call or subscribes to it at once, or awaits it first.
 */
export function streamPromise<T>(promise: Promise<T>, where: string): Promise<T> & AsyncIterable<unknown> {
  const iterate = (): AsyncIterator<unknown> => iteratorOf(promise.then((result) => iterateResult(result, where)));
  const observed = observableOf(promise);
  return Object.assign(promise, {
    [Symbol.asyncIterator]: iterate,
    [observable]: () => observed,
    subscribe: observed.subscribe.bind(observed),
    pipe: observed.pipe.bind(observed),
  });
}

/** A subscriber that has left is still subscribed: the Observable holds a lock, which it then releases. */
const observableOf = (promise: Promise<unknown>): Observable<unknown> =>
  new Observable((subscriber) => {
    promise.then(
      (result) => (isObservableLike(result) ? result : of(result)).subscribe(subscriber),
      (error: unknown) => subscriber.error(error),
    );
  });

function iterateResult(result: unknown, where: string): AsyncIterator<unknown> {
  // The call was skipped.
  if (result === undefined) return nothing();
  const iterable = result as Partial<AsyncIterable<unknown>> | null;
  if (typeof iterable?.[Symbol.asyncIterator] === 'function') return iterable[Symbol.asyncIterator]!();
  throw new TypeError(`${where} returned ${result === null ? 'null' : typeof result}, which is not async iterable.`);
}

async function* nothing(): AsyncGenerator<never> {}

function iteratorOf(iterator: Promise<AsyncIterator<unknown>>): AsyncIterator<unknown> {
  return {
    next: async (value?: unknown) => (await iterator).next(value),
    return: async (value?: unknown) => (await iterator).return?.(value) ?? { done: true, value },
    throw: async (error: unknown) => {
      const inner = await iterator;
      if (inner.throw) return inner.throw(error);
      throw error;
    },
  };
}
