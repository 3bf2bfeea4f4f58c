/** Resolves with the error that a promise is rejected with; throws if the promise is fulfilled. */
export function rejection<E = Error>(promise: Promise<unknown>): Promise<E> {
  return promise.then(
    (value) => {
      throw new Error(`Expected a rejection, got ${String(value)}.`);
    },
    (error: unknown) => error as E,
  );
}

/** Returns the error that a call throws; throws if the call returns. */
export function thrownBy(call: () => unknown): Error {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('Expected an error, but the call returned.');
}
