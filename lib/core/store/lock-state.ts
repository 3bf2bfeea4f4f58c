import { isWellFormed } from '../key.js';
import { type LockMode } from '../lock.errors.js';
import { refuse } from '../read-options.js';
import { type LastRun, type LockState } from './lock-store.js';

/** The mode of a lock with these holders. */
export function modeOf(holders: readonly { readonly mode: LockMode }[]): LockState['mode'] {
  if (holders.length === 0) return 'free';
  return holders.some(({ mode }) => mode === 'write') ? 'write' : 'read';
}

/** Which locks to list: those whose key begins with `prefix`, at most `limit`. */
export interface ListOptions {
  readonly prefix: string;
  readonly limit: number;
}

/** @throws LockConfigurationError */
export function checkListOptions({ prefix, limit }: ListOptions): void {
  if (typeof prefix !== 'string' || !isWellFormed(prefix)) {
    refuse('prefix', prefix, 'a well-formed string');
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    refuse('limit', limit, 'a whole number from 1');
  }
}

/** Yields the locks of these keys that are held or waited for. A free lock is stored only to remember its token. */
export async function* listLocks(
  keys: AsyncIterable<string> | Iterable<string>,
  limit: number,
  inspect: (key: string) => Promise<LockState | undefined>,
): AsyncGenerator<LockState> {
  let count = 0;
  for await (const key of keys) {
    const state = await inspect(key);
    if (!state || (state.mode === 'free' && state.waiters === 0)) continue;
    yield state;
    count += 1;
    if (count >= limit) return;
  }
}

/** Parses the text by which a store names a holder: `host:pid Class.method`. */
export function readHolderText(text: string): {
  readonly host: string;
  readonly pid: number;
  readonly where: string;
} {
  const [instance = '', ...where] = text.split(' ');
  const colon = instance.lastIndexOf(':');
  return {
    host: instance.slice(0, Math.max(colon, 0)),
    pid: Number(instance.slice(colon + 1)),
    where: where.join(' '),
  };
}

/** Sorts runs by their begin, the latest first. */
export const byBegin = (a: LastRun, b: LastRun): number =>
  b.started.getTime() - a.started.getTime() || b.fire.getTime() - a.fire.getTime() || (a.job < b.job ? -1 : 1);

/** Returns the run of this job; without one, the run that began last. `runs` has the last run of each job. */
export const lastRunOf = (runs: readonly LastRun[], job?: string): LastRun | null =>
  runs.filter((run) => job === undefined || run.job === job).sort(byBegin)[0] ?? null;
