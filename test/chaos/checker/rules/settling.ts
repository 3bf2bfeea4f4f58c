import { stoodStill } from '../allowances.js';
import { type Call, type History, type Violation } from '../history.js';
import { MISUSE } from '../../worker/misuse.mjs';

/** A call has an answer from the store at least this long, however short its wait is. */
const FIRST_ANSWER_MS = 1_000;

/**
 * What a busy machine may add to a time limit: timers of Node and of Redis run late when two cores have twenty processes.
 * Longer standstills of a process are recorded, and taken off.
 */
const LATE_MS = 1_500;

/** Every call settles in its time: an acquisition within its wait, a call on a hold within the bound that its caller gave. */
export function callsSettle(history: History): Violation[] {
  const acquisitions = [...history.calls.values()].map((call) => ({
    op: call.op,
    process: call.process,
    what: 'the call',
    from: call.calledAt,
    to: call.grantedAt ?? call.failedAt,
    withinMs: Math.max(Math.min(call.waitMs, call.abortAfterMs ?? Infinity), FIRST_ANSWER_MS),
  }));
  return [...acquisitions, ...history.questions].flatMap(({ op, process, what, from, to, withinMs }) => {
    const { endedAt, stuckAt } = history.process(process);
    const until = to ?? stuckAt ?? endedAt ?? history.endedAt;
    const overMs = until - from - withinMs - LATE_MS;
    if (overMs <= 0 || overMs <= stoodStill(history, process, { from, to: until })) return [];
    const took = to === undefined ? 'has no end' : `took ${(to - from).toFixed(0)} ms`;
    const text = `${what} of ${op} ${took}; it had ${withinMs.toFixed(0)} ms`;
    return [{ rule: 'calls-settle' as const, t: from, text }];
  });
}

/** A process that was asked to end has ended by itself, and has left nothing. */
export function nothingLeft(history: History): Violation[] {
  const violation = (t: number, text: string): Violation => ({ rule: 'nothing-left', t, text });
  const ofProcesses = [...history.processes.values()].flatMap(({ name, stuckAt, closedLeft = [] }) => [
    ...(stuckAt === undefined ? [] : [violation(stuckAt, `${name} did not end after its app was closed`)]),
    ...closedLeft.map((what) => violation(history.endedAt, `${name} left a ${what}`)),
  ]);
  return [...ofProcesses, ...history.left.map((what) => violation(history.endedAt, what))];
}

/** A process sees no unhandled rejection and no warning, and ends only when it is told to. */
export function noStrayErrors(history: History): Violation[] {
  const errors = history.unhandled.map(({ process, t, text }) => stray(t, `${process}: ${text}`));
  const ends = [...history.processes.values()].flatMap(({ name, code, signal, endedAt, closingAt }) => {
    const wasTold = code === 0 ? closingAt !== undefined : signal === 'SIGKILL';
    return endedAt === undefined || wasTold ? [] : [stray(endedAt, `${name} ended with ${signal ?? `code ${code}`}`)];
  });
  return [...errors, ...ends];
}

/** What calls may fail with: errors of the library that a fault may cause, the reason of the caller's own signal, and the skip of a fire. */
const isTyped = (code: string): boolean =>
  (/^LOCK_[A-Z_]+$/.test(code) && !MISUSE.includes(code)) || ['TimeoutError', 'skipped'].includes(code);

/** Calls fail only with errors that the library documents. */
export function typedErrors(history: History): Violation[] {
  const ofCalls = [...history.calls.values()].flatMap(({ op, failure, failedAt }) =>
    failure === undefined || isTyped(failure) ? [] : [stray(failedAt!, `${op} failed: ${failure}`)],
  );
  const ofOthers = history.errors
    .filter(({ code }) => !isTyped(code))
    .map(({ process, t, what, code }) => stray(t, `${what} of ${process} failed: ${code}`));
  return [...ofCalls, ...ofOthers];
}

const stray = (t: number, text: string): Violation => ({ rule: 'no-stray-errors', t, text });

/** Whether the call was still waiting at this moment, as far as its process knows. */
export const settledAt = ({ grantedAt, failedAt }: Call): number => grantedAt ?? failedAt ?? Infinity;
