/** Whether a value is a real signal. Something that only looks like one may miss a method. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  try {
    const methods = ['addEventListener', 'removeEventListener', 'throwIfAborted'] as const;
    return methods.every((name) => typeof (value as AbortSignal)[name] === 'function');
  } catch {
    return false;
  }
}
