interface Shared {
  readonly callbacks: Set<() => void>;
  readonly stop: () => void;
}

/** One listener per signal, however many calls wait on it: Node warns of a leak at more than ten. */
const shared = new WeakMap<AbortSignal, Shared>();

function listenTo(signal: AbortSignal): Shared {
  const callbacks = new Set<() => void>();
  const abort = (): void => {
    for (const callback of callbacks) callback();
  };
  signal.addEventListener('abort', abort, { once: true });
  return { callbacks, stop: () => signal.removeEventListener('abort', abort) };
}

/** Calls back when `signal` is aborted. Returns a function that stops listening. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const { callbacks, stop } = shared.get(signal) ?? listenTo(signal);
  shared.set(signal, { callbacks, stop });
  callbacks.add(callback);
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return;
    shared.delete(signal);
    stop();
  };
}

/**
 * Runs `work` with a signal that is aborted when `a` or `b` is. Unlike `AbortSignal.any`, it leaves nothing behind on
 * long-lived signals once the work is done.
 */
export async function withEither<T>(
  a: AbortSignal | undefined,
  b: AbortSignal | undefined,
  work: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  if (!a || !b) return work(a ?? b);
  const either = new AbortController();
  const stops = [a, b].map((signal) => onAbort(signal, () => either.abort(signal.reason)));
  try {
    for (const signal of [a, b]) signal.throwIfAborted();
    return await work(either.signal);
  } finally {
    for (const stop of stops) stop();
  }
}
