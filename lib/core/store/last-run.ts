import { type LastRun } from './lock-store.js';

/** Of several jobs, whose run began last; for an array to sort by, the latest first. */
export const byBegin = (a: LastRun, b: LastRun): number =>
  b.started.getTime() - a.started.getTime() || b.fire.getTime() - a.fire.getTime() || (a.job < b.job ? -1 : 1);

/** The run of that job, or without one the latest of all jobs; `runs` has the last run of each. */
export const lastRunOf = (runs: readonly LastRun[], job?: string): LastRun | null =>
  runs.filter((run) => job === undefined || run.job === job).sort(byBegin)[0] ?? null;
