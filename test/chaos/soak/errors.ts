import { faultsOf, touches, union } from '../../judge/spans.js';
import { type History, type Violation } from '../../judge/history.js';

/** What a call may answer whenever it likes: that the lock is busy, its wait over, its caller's signal aborted, its fire run. */
const ANSWERS = ['LOCK_BUSY', 'LOCK_WAIT_TIMEOUT', 'TimeoutError', 'skipped'];

/** What it may answer while the servers fail over, and when a busy machine let its process or the networks stand still. */
const OF_FAILOVERS = ['LOCK_STORE', 'LOCK_LOST'];

/** A shorter standstill ends no lease and no connection. */
const STANDSTILL_MS = 200;
/** The longest wait; a look at a lock has no begin in the history. */
const LONGEST_MS = 7_000;

/** Errors that neither a failover nor a standstill explains. */
export function unexpectedErrors(history: History): Violation[] {
  const standstills = [...history.processes.values()].flatMap((process) => process.standstills);
  const spans = [...standstills, ...history.standstills]
    .filter(({ from, to }) => to - from > STANDSTILL_MS)
    .map(({ from, to }) => ({ from, to: to + history.limits.recoveryMs }));
  const faults = union([...faultsOf(history, undefined), ...spans]);
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
