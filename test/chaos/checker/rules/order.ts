import { RECOVERY_MS, faultsOf, stoodStill } from '../allowances.js';
import { callsByKey } from '../belief.js';
import { type Call, type History, type Span } from '../history.js';
import { touches } from '../spans.js';
import { type Violation } from '../violation.js';

/** A call has asked Redis this long after it was made, also on a busy machine. */
const ASKS_WITHIN_MS = 500;

/** Who waits is served before those that come later, unless a fault concerns it or its process stands still. */
export function firstInFirstOut(history: History): Violation[] {
  const faults = new Map<string, Span[]>();
  const disturbing = ({ process }: Call): Span[] => {
    const { worker } = history.process(process);
    if (!faults.has(worker)) faults.set(worker, faultsOf(history, worker, RECOVERY_MS));
    return faults.get(worker)!;
  };
  return [...callsByKey(history.calls.values())].flatMap(([key, calls]) => {
    let waiting: Call[] = [];
    return calls
      .filter(queues)
      .toSorted((a, b) => a.calledAt - b.calledAt)
      .flatMap((call) => {
        waiting = waiting.filter((one) => waitedUntil(one) > call.calledAt);
        const passed = waiting.filter((one) => isPassed(history, one, call, disturbing(one)));
        waiting.push(call);
        return passed.map((one) => {
          const text = `${call.op} was granted ${key} before ${one.op}, which had waited for it`;
          return { rule: 'first-in-first-out' as const, t: call.grantedAt!, text };
        });
      });
  });
}

/**
 * Until when a call has waited for sure. One whose wait is over has given its place back a little earlier than it fails; one that
 * fails in another way may have had no place.
 */
const waitedUntil = ({ grantedAt, failedAt, failure }: Call): number =>
  grantedAt ?? (failure === 'LOCK_WAIT_TIMEOUT' ? failedAt! - ASKS_WITHIN_MS : -Infinity);

/** Readers share a grant, owners enter again, and a call for several keys waits for all of them. */
const queues = ({ keys, mode, owner, unfair, waitMs }: Call): boolean =>
  keys.length === 1 && mode === 'write' && owner === undefined && !unfair && waitMs > 0;

function isPassed(history: History, first: Call, later: Call, faults: readonly Span[]): boolean {
  const { grantedAt = Infinity } = later;
  if (first.calledAt + ASKS_WITHIN_MS > later.calledAt || waitedUntil(first) < grantedAt) return false;
  const span = { from: first.calledAt, to: grantedAt };
  if (faults.some((fault) => touches(fault, span))) return false;
  return stoodStill(history, first.process, span) < ASKS_WITHIN_MS;
}
