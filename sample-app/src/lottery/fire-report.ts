import { INSTANCE } from '../instance.js';
import { fireAt } from './lottery.settings.js';

/** What one instance did at one fire. */
export type FireOutcome =
  | { readonly outcome: 'drawing'; readonly fencingToken: number | null }
  | { readonly outcome: 'drew'; readonly fencingToken: number | null; readonly winners: readonly number[] }
  | { readonly outcome: 'skipped' };

/** `fire` is the nominal time, in milliseconds. */
export type FireReport = FireOutcome & { readonly type: 'fire'; readonly fire: number };

/** Reports to the runner what this instance does at a fire. Prints a line if there is no runner. */
export function report(outcome: FireOutcome, fire = fireAt(Date.now())): void {
  const fireReport: FireReport = { type: 'fire', fire, ...outcome };
  if (process.connected) process.send?.(fireReport);
  else console.log(lineOf(fireReport));
}

/** Another instance draws at this fire. */
export const reportSkip = (): void => report({ outcome: 'skipped' });

/** Formats a time as `hh:mm:ss`. */
export const timeOfDay = (time: number): string => new Date(time).toTimeString().slice(0, 8);

function lineOf(fireReport: FireReport): string {
  const start = `${timeOfDay(fireReport.fire)}  ${INSTANCE} `;
  if (fireReport.outcome === 'skipped') return `${start}skipped`;
  if (fireReport.outcome === 'drawing') return `${start}draws (fencing token ${fireReport.fencingToken})`;
  return `${start}drew ${fireReport.winners.join(', ')}`;
}
