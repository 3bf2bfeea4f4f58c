import { type History, type Violation } from './history.js';
import { callsSettle, firstInFirstOut, noLostWakeUp, recovery } from './waits.js';
import { MISUSE } from '../chaos/worker/misuse.mjs';
import { exclusion } from './locks.js';
import { lossTold } from './losses.js';
import { fencing, reentry } from './fencing.js';
import { fencedWrites } from './registers.js';
import { leaders, oneRunPerFire, somethingTested, transfers } from './deeds.js';

/** A process that was asked to end has ended by itself, and has not left anything open. */
function nothingLeft(history: History): Violation[] {
  const violation = (t: number, text: string): Violation => ({ rule: 'nothing-left', t, text });
  const ofProcesses = [...history.processes.values()].flatMap(({ name, stuckAt, closedLeft = [] }) => [
    ...(stuckAt === undefined ? [] : [violation(stuckAt, `${name} did not end after its app was closed`)]),
    ...closedLeft.map((what) => violation(history.endedAt, `${name} left a ${what}`)),
  ]);
  return [...ofProcesses, ...history.left.map((what) => violation(history.endedAt, what))];
}

/** A process sees no unhandled rejection and no warning, and ends only when asked to. */
function noStrayErrors(history: History): Violation[] {
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
function typedErrors(history: History): Violation[] {
  const ofCalls = [...history.calls.values()].flatMap(({ op, failure, failedAt }) =>
    failure === undefined || isTyped(failure) ? [] : [stray(failedAt!, `${op} failed: ${failure}`)],
  );
  const ofOthers = history.errors
    .filter(({ code }) => !isTyped(code))
    .map(({ process, t, what, code }) => stray(t, `${what} of ${process} failed: ${code}`));
  return [...ofCalls, ...ofOthers];
}

const stray = (t: number, text: string): Violation => ({ rule: 'no-stray-errors', t, text });

/** The differences between the topologies and the clients. */
export interface Scope {
  /** Independent masters decide. */
  readonly isQuorum: boolean;
  /** Calls wait in one queue. */
  readonly hasQueue: boolean;
  /** Errors are those of this library. */
  readonly isOurs: boolean;
}

export function scopeOf(topology: string, isOurs: boolean): Scope {
  const isQuorum = topology === 'quorum';
  return { isQuorum, hasQueue: isOurs && !isQuorum, isOurs };
}

/** Checks a history; the violations come in the order of time. */
export function check(history: History, { isQuorum, hasQueue, isOurs }: Scope): Violation[] {
  const rules = [
    exclusion,
    fencing(isQuorum),
    fencedWrites,
    lossTold,
    reentry,
    oneRunPerFire,
    transfers,
    leaders,
    callsSettle,
    noLostWakeUp,
    ...(hasQueue ? [firstInFirstOut] : []),
    recovery,
    nothingLeft,
    noStrayErrors,
    somethingTested,
    ...(isOurs ? [typedErrors] : []),
  ];
  return rules.flatMap((rule) => rule(history)).sort((a, b) => a.t - b.t);
}
