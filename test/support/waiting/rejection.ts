/** Resolves with the error that a promise is rejected with; throws if the promise is fulfilled. */
export function rejection<E = Error>(promise: Promise<unknown>): Promise<E> {
  return promise.then(
    (value) => {
      throw new Error(`Expected a rejection, got ${String(value)}.`);
    },
    (error: unknown) => error as E,
  );
}
