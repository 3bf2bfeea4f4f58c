import { checkConnectionName, checkOptionNames } from '../core/lock.options.js';
import { LockConfigurationError } from '../core/lock.errors.js';

/** The bounds of the histograms' buckets, in seconds, rising. */
export interface BucketOptions {
  /**
   * Of the time that acquisitions take.
   * @default 1 ms to 5 minutes, in 16 buckets
   */
  acquireBuckets?: readonly number[];
  /**
   * Of the time that locks are held.
   * @default 1 ms to an hour, in 17 buckets
   */
  holdBuckets?: readonly number[];
}

/** Which lock services an exporter's module observes. */
export interface ConnectionsOption {
  /**
   * The names of the connections; `undefined` is the default one.
   * @default [undefined]
   */
  connections?: readonly (string | undefined)[];
}

const BUCKETS = ['acquireBuckets', 'holdBuckets'] as const;

/** Checks the options of `where`; `names` are those beside the buckets. */
export function checkExporterOptions(options: unknown, where: string, names: readonly string[]): void {
  checkOptionNames(options, [...names, ...BUCKETS], where);
  const given = options as Record<string, unknown>;
  for (const name of BUCKETS) checkBuckets(given[name], name);
  checkConnections(given.connections);
}

function checkBuckets(value: unknown, name: string): void {
  if (value === undefined) return;
  const bounds = Array.isArray(value) ? (value as unknown[]) : [];
  const rises = bounds.every(
    (bound, i) => Number.isFinite(bound) && (bound as number) > ((bounds[i - 1] as number) ?? 0),
  );
  if (bounds.length > 0 && rises) return;
  throw new LockConfigurationError(
    `Expected \`${name}\` to be a list of rising seconds above 0, such as [0.01, 0.1, 1].`,
  );
}

function checkConnections(value: unknown): void {
  if (value === undefined) return;
  if (!Array.isArray(value)) {
    throw new LockConfigurationError(`Expected \`connections\` to be a list of names, got ${typeof value}.`);
  }
  for (const name of value) checkConnectionName(name, 'connections');
}
