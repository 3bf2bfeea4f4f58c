import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../library/typescript-loader.mjs';
import { type PlantedBug } from '../library/library.js';
import { type Plan, PROFILES } from '../workload/plan.js';

/** A run that broke a rule once. Its plan is kept as it is: a seed means another plan when plans are drawn differently. */
export interface FailedRun {
  /** The name of its file. */
  readonly name: string;
  /** What was wrong. */
  readonly what: string;
  readonly rule: string;
  /** Takes the fix away again. */
  readonly without: Omit<PlantedBug, 'name'>;
  readonly plan: Plan;
}

const FOLDER = join(ROOT, 'test/simulation/failed');

/** All runs that failed once. */
export const failedRuns = (): readonly FailedRun[] =>
  readdirSync(FOLDER)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => ({ name: file.replace('.json', ''), ...readRun(join(FOLDER, file)) }));

function readRun(file: string): Omit<FailedRun, 'name'> {
  const text = readFileSync(file, 'utf8');
  const run: FailedRun = JSON.parse(text, (_, value: unknown) => (value === 'Infinity' ? Infinity : value)) as never;
  // A plan may be older than a setting of its profile.
  return { ...run, plan: { ...run.plan, profile: { ...PROFILES['calm']!, ...run.plan.profile } } };
}

/** The text of a file of this folder; JSON does not support infinite numbers. */
export const textOfRun = (run: Partial<FailedRun>): string =>
  JSON.stringify(run, (_, value: unknown) => (value === Infinity ? 'Infinity' : value), 2);
