import { covered, grantsByKey, isLost, type Losses, lossesOf, sharesOwner, stoodStill } from './spans.js';
import { type Call, type History, type Violation } from './history.js';

/** The signal of a lost lock fires before another call holds the lock. */
export function lossTold(history: History): Violation[] {
  return [...grantsByKey(history)].flatMap(([key, calls]) => {
    const losses = lossesOf(history, key);
    return calls.flatMap((call, i) => {
      const end = endOf(history, call);
      for (let j = i + 1; j < calls.length && calls[j]!.grantedAt! <= end; j++) {
        const violation = conflicts(call, calls[j]!) && told(history, key, [call, calls[j]!], losses);
        if (violation) return [violation];
      }
      return [];
    });
  });
}

/** When the holder had been notified, or had given up the lock itself. */
function endOf(history: History, { lostAt, releasingAt, process }: Call): number {
  const { endedAt = Infinity } = history.process(process);
  return Math.min(lostAt ?? Infinity, releasingAt ?? Infinity, endedAt, history.endedAt);
}

function conflicts(first: Call, next: Call): boolean {
  const reads = first.mode === 'read' || (first.readsFrom ?? Infinity) <= next.grantedAt!;
  return !sharesOwner(first, next) && !(reads && next.mode === 'read');
}

function told(
  history: History,
  key: string,
  [first, next]: readonly [Call, Call],
  losses: Losses,
): Violation | undefined {
  const { tellingMs } = history.limits;
  const span = { from: next.grantedAt! - tellingMs, to: endOf(history, first) };
  // A clock that stood still meanwhile is late by that time, also if it did before the answer that granted the lock was read.
  const sleptMs = covered({ from: first.calledAt, to: span.to }, history.process(first.process).sleeps);
  const lateMs = span.to - next.grantedAt! - stoodStill(history, first.process, span) - sleptMs;
  if (first.until === Infinity || lateMs <= tellingMs) return undefined;
  // While the address of the server moves, the one that was granted first may be the one that keeps the lock.
  const nextEnd = Math.min(span.to, endOf(history, next));
  if (isLost(losses, first, next, span.to) || isLost(losses, next, first, nextEnd)) return undefined;
  const text = `${first.op} lost ${key}, and was notified ${lateMs.toFixed(0)} ms after the grant to ${next.op}`;
  return { rule: 'loss-told', t: next.grantedAt!, text };
}
