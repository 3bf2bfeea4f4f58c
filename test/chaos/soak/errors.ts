import { faultsOf } from '../checker/allowances.js';
import { type History } from '../checker/history.js';
import { touches } from '../checker/spans.js';
import { type Violation } from '../checker/violation.js';

/** What a call may answer whenever it likes: that the lock is busy, its wait over, its caller's signal aborted, its fire run. */
const ANSWERS = ['LOCK_BUSY', 'LOCK_WAIT_TIMEOUT', 'TimeoutError', 'skipped'];

/** What it may answer while the servers fail over. */
const OF_FAILOVERS = ['LOCK_STORE', 'LOCK_LOST'];

const RECOVERY_MS = 4_000;
/** The longest wait; a look at a lock has no begin in the history. */
const LONGEST_MS = 7_000;

/** Errors that no failover explains. */
export function unexpectedErrors(history: History): Violation[] {
  const faults = faultsOf(history, undefined, RECOVERY_MS);
  const isExpected = (code: string, from: number, to: number): boolean =>
    ANSWERS.includes(code) || (OF_FAILOVERS.includes(code) && faults.some((fault) => touches(fault, { from, to })));
  const violation = (t: number, text: string): Violation => ({ rule: 'no-stray-errors', t, text });
  const ofCalls = [...history.calls.values()].flatMap(({ op, failure, failedAt = 0, calledAt }) =>
    failure === undefined || isExpected(failure, calledAt, failedAt)
      ? []
      : [violation(failedAt, `${op} failed: ${failure}`)],
  );
  const ofOthers = history.errors
    .filter(({ code, t }) => !isExpected(code, t - LONGEST_MS, t))
    .map(({ process, what, code, t }) => violation(t, `${what} of ${process} failed: ${code}`));
  return [...ofCalls, ...ofOthers].sort((a, b) => a.t - b.t);
}
