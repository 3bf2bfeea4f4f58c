import { groupBy } from '../../checker/spans.js';

/** What was measured at one moment of one source: a process, all servers, or all sentinels. */
export interface Sample {
  readonly minute: number;
  readonly source: string;
  readonly values: Readonly<Record<string, number>>;
}

/** One quantity of one source over time. */
export interface Series {
  readonly source: string;
  readonly name: string;
  readonly minutes: readonly number[];
  readonly values: readonly number[];
}

/** The samples by source and quantity. A missing kind of resource counts as 0. */
export function seriesOf(samples: readonly Sample[]): Series[] {
  const sources = [...new Set(samples.map(({ source }) => source))];
  return sources.flatMap((source) => {
    const own = samples.filter((sample) => sample.source === source);
    const names = [...new Set(own.flatMap(({ values }) => Object.keys(values)))];
    const minutes = own.map(({ minute }) => minute);
    return names.map((name) => ({ source, name, minutes, values: own.map(({ values }) => values[name] ?? 0) }));
  });
}

/** A straight line through the values, insensitive to a few outliers. */
interface Trend {
  /** The median of the slopes between all pairs (Theil and Sen), per sample. */
  readonly slope: number;
  /** How many standard deviations the pairs that rise outnumber those that fall (Mann and Kendall); 0 if all are equal. */
  readonly z: number;
}

function trendOf(values: readonly number[]): Trend {
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

function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const MINUTES_PER_DAY = 1_440;

/** With fewer samples, half of which are checked, even the steadiest rise might be random. */
export const MIN_SAMPLES = 16;

/** One run in a thousand rises that much at random. */
const SURE_Z = 3.09;

/** The bound on the apparent growth of a quantity in a day. A leak of one thing per failover (a minute) is 1,440 a day. */
const BOUNDS: Record<string, { readonly unit: string; readonly perDay: number }> = {
  heap: { unit: 'MB', perDay: 100 },
  external: { unit: 'MB', perDay: 50 },
  rss: { unit: 'MB', perDay: 400 },
  keys: { unit: '', perDay: 20_000 },
  memory: { unit: 'MB', perDay: 100 },
};
const COUNT = { unit: '', perDay: 150 };

const boundOf = (name: string): { readonly unit: string; readonly perDay: number } => BOUNDS[name] ?? COUNT;

export interface Verdict extends Series {
  /** The medians of the first and of the last third. */
  readonly first: number;
  readonly last: number;
  readonly perDay: number;
  readonly z: number;
  readonly result: 'flat' | 'growing' | 'too short';
}

/**
 * Checks the second half, since caches fill and code is compiled in the first. A quantity grows if its slope, extrapolated to
 * a day, is above its bound, and if it rises too steadily for chance.
 */
export function verdictOf(series: Series): Verdict {
  const { minutes, values, name } = series;
  const half = values.slice(Math.floor(values.length / 2));
  const third = Math.ceil(values.length / 3);
  const { slope, z } = trendOf(half);
  const perSample = (minutes.at(-1)! - minutes[0]!) / Math.max(1, minutes.length - 1);
  const perDay = perSample > 0 ? (slope / perSample) * MINUTES_PER_DAY : 0;
  const grows = perDay > boundOf(name).perDay && z > SURE_Z;
  return {
    ...series,
    first: median(values.slice(0, third)),
    last: median(values.slice(-third)),
    perDay,
    z,
    result: values.length < MIN_SAMPLES ? 'too short' : grows ? 'growing' : 'flat',
  };
}

function number(value: number): string {
  const digits = Number.isInteger(value) ? 0 : 1;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: 1 });
}

/** One line of the log of a run. */
export function sampleLine({ minute, source, values }: Sample): string {
  const parts = Object.entries(values).map(([name, value]) => `${name.replace(/^kind /, '')} ${number(value)}`);
  return `${minute.toFixed(1).padStart(5)} min  ${source.padEnd(9)} ${parts.join(', ')}`;
}

/** The verdicts as a table in Markdown; the processes share a row. */
export function table(verdicts: readonly Verdict[]): string {
  const rows = groupBy(verdicts, ({ source, name }) => `${/^w\d+$/.test(source) ? 'processes' : source} | ${name}`);
  const all = (list: readonly Verdict[], of: (one: Verdict) => number): string =>
    list.map((one) => number(of(one))).join(', ');
  return [
    '| of | what | first third | last third | slope, a day | bound | |',
    '| --- | --- | ---: | ---: | ---: | ---: | --- |',
    ...[...rows].map(([title, list]) => {
      const { unit, perDay } = boundOf(list[0]!.name);
      const results = [...new Set(list.map(({ result }) => result))].join(', ');
      const medians = [all(list, ({ first }) => first), all(list, ({ last }) => last)];
      const slopes = all(list, (one) => Math.round(one.perDay) || 0);
      return `| ${title}${unit && `, ${unit}`} | ${medians.join(' | ')} | ${slopes} | ${number(perDay)} | ${results} |`;
    }),
  ].join('\n');
}
