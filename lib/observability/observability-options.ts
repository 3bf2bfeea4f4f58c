import { LockConfigurationError } from '../core/lock.errors.js';
import { checkConnectionName } from '../core/option-checks.js';
import { readOptions } from '../core/read-options.js';

/** The bounds of the histograms' buckets, in seconds, in rising order. */
export interface BucketOptions {
  /**
   * The bounds for the time that acquisitions take.
   * @default 1 ms to 5 minutes, in 16 buckets
   */
  acquireBuckets?: readonly number[];
  /**
   * The bounds for the time that locks are held.
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

export const BUCKET_NAMES = { acquireBuckets: true, holdBuckets: true } satisfies Record<keyof BucketOptions, true>;

/**
 * Checks the options of `where` and returns a copy of them; `names` are those that it has.
 * @throws LockConfigurationError
 */
export function checkExporterOptions<T extends object>(
  options: T,
  where: string,
  names: Readonly<Record<string, true>>,
): T {
  const own = readOptions(options, Object.keys(names), where) as Record<string, unknown>;
  for (const name of Object.keys(BUCKET_NAMES)) checkBuckets(own[name], name);
  checkConnections(own['connections']);
  return own as T;
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
