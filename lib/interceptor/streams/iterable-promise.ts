/**
 * Also an async iterable: of a method that is typed to return one and is no `async function*`, nobody can tell that before
 * it was called, under its lock. Its caller iterates the call at once, or awaits it first.
 */
export function iterablePromise<T>(promise: Promise<T>, where: string): Promise<T> & AsyncIterable<unknown> {
  const iterate = (): AsyncIterator<unknown> => iteratorOf(promise.then((result) => iterateResult(result, where)));
  return Object.assign(promise, { [Symbol.asyncIterator]: iterate });
}

function iterateResult(result: unknown, where: string): AsyncIterator<unknown> {
  // A call that was skipped.
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
