import { type Call, type Fault, type History, type Span, standstillsOf } from './history.js';
import { covered, union } from './spans.js';

/**
 * What is excused, and for how long. Everything else is a violation.
 *
 * - Lost data (a restart without it, an eviction, an operator, a failover, a clock that steps forward) ends a lock although
 *   its holder lives. The holder learns of it at its next renewal, and in any case when its lease ends (docs/guarantees.md,
 *   "What is not promised" and "Failover"). So a holder of before the loss may overlap with one of after it, for a lease. A
 *   fire whose record was lost may run again. Tokens are excused on a quorum only, the fenced resource never.
 * - A process that stands still (SIGSTOP, a blocked event loop) cannot tell anybody anything. `held` is false all the same,
 *   so exclusion is not excused for clients that prove their lease.
 * - While a fault lasts, and for `RECOVERY_MS` after it, a call may wait longer than the bound of a wake-up.
 */

/** A message between two processes, and the line in the log that says so, take a little time on a busy machine. */
export const TELLING_MS = 50;

/** After a fault, places of dead waiters end with their leases (3 s here), and clients connect again within a second. */
export const RECOVERY_MS = 4_000;

/** Two reads of one clock, and the rounding of both. */
export const ROUNDING_MS = 1;

/** The losses of data that may concern a key. */
export const lossesOf = (history: History, key: string): Fault[] =>
  history.faults.filter(({ forgets }) => forgets === 'all' || forgets?.includes(key));

/**
 * Whether a loss of data explains that two calls believed to hold one key together, until `to`. The one that was granted
 * before the loss may learn of its grant last.
 */
export const isForgotten = (losses: readonly Fault[], a: Call, b: Call, to: number): boolean =>
  isLost(losses, a, b, to) || isLost(losses, b, a, to);

/** Whether a loss of data between the grants of two calls explains that the first one believed in its lock until `to`. */
export const isLost = (losses: readonly Fault[], before: Call, after: Call, to: number): boolean =>
  losses.some(
    (loss) =>
      before.calledAt <= loss.to && after.grantedAt! >= loss.from && to <= loss.to + before.leaseMs + TELLING_MS,
  );

/** How long a process, or the networks, stood still within a span. */
export function stoodStill(history: History, process: string, span: Span): number {
  return covered(span, [...standstillsOf(history.process(process)), ...history.standstills]);
}

/** When a fault concerned a worker, or might still; without a worker, all faults. */
export function faultsOf(history: History, worker: string | undefined, recoveryMs: number): Span[] {
  const spans = history.faults
    .filter((fault) => worker === undefined || fault.worker === undefined || fault.worker === worker)
    .map(({ from, to }) => ({ from, to: to + recoveryMs }));
  return union(spans);
}
