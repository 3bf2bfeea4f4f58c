/** Returns the length of one slice of a measurement, in milliseconds. */
export const sliceMs = (byDefault) => Number(process.env.SLICE_MS ?? byDefault);

/** Runs `pair` (an acquire and its release) by one caller for `ms` milliseconds; returns how often it ran per second. */
export async function rateOf(pair, ms) {
  const startedAt = performance.now();
  let pairs = 0;
  while (performance.now() - startedAt < ms) {
    await pair();
    pairs += 1;
  }
  return (pairs * 1_000) / (performance.now() - startedAt);
}

export const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
