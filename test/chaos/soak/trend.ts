/** A straight line through the values, which a few outliers do not turn. */
export interface Trend {
  /** The median of the slopes between all pairs (Theil and Sen), per sample. */
  readonly slope: number;
  /** How many standard deviations the pairs that rise outnumber those that fall (Mann and Kendall); 0 if all are equal. */
  readonly z: number;
}

export function trendOf(values: readonly number[]): Trend {
  const slopes = values.flatMap((later, j) => values.slice(0, j).map((earlier, i) => (later - earlier) / (j - i)));
  if (slopes.length === 0) return { slope: 0, z: 0 };
  const s = slopes.reduce((sum, slope) => sum + Math.sign(slope), 0);
  const variance = (pairsWeight(values.length) - tiesWeight(values)) / 18;
  return { slope: median(slopes), z: s === 0 || variance <= 0 ? 0 : (s - Math.sign(s)) / Math.sqrt(variance) };
}

const pairsWeight = (n: number): number => n * (n - 1) * (2 * n + 5);

function tiesWeight(values: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts.values()].reduce((sum, n) => sum + pairsWeight(n), 0);
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
