import { type Series } from './series.js';
import { median, trendOf } from './trend.js';

const MINUTES_PER_DAY = 1_440;

/** With fewer samples, half of which are judged, even the steadiest rise might be chance. */
export const MIN_SAMPLES = 16;

/** One run in a thousand rises that much by chance. */
const SURE_Z = 3.09;

/** By how much a quantity may seem to rise in a day. A leak of one thing per failover (a minute) is 1,440 a day. */
const BOUNDS: Record<string, { readonly unit: string; readonly perDay: number }> = {
  heap: { unit: 'MB', perDay: 100 },
  external: { unit: 'MB', perDay: 50 },
  rss: { unit: 'MB', perDay: 400 },
  keys: { unit: '', perDay: 20_000 },
  memory: { unit: 'MB', perDay: 100 },
};
const COUNT = { unit: '', perDay: 150 };

export const boundOf = (name: string): { readonly unit: string; readonly perDay: number } => BOUNDS[name] ?? COUNT;

export interface Verdict extends Series {
  /** The medians of the first and of the last third. */
  readonly first: number;
  readonly last: number;
  readonly perDay: number;
  readonly z: number;
  readonly result: 'flat' | 'growing' | 'too short';
}

/**
 * Judges the second half, since caches fill and code is compiled in the first. A quantity grows if its slope, extrapolated to
 * a day, is above its bound, and if it rises too steadily for chance.
 */
export function judge(series: Series): Verdict {
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
