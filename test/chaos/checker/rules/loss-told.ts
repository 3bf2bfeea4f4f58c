import { TELLING_MS, isLost, lossesOf, stoodStill } from '../allowances.js';
import { grantsByKey, sharesOwner } from '../belief.js';
import { type Call, type Fault, type History } from '../history.js';
import { type Violation } from '../violation.js';

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

/** When the holder had been told, or did not hold the lock any more by its own doing. */
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
  losses: readonly Fault[],
): Violation | undefined {
  const span = { from: next.grantedAt! - TELLING_MS, to: endOf(history, first) };
  const lateMs = span.to - next.grantedAt! - stoodStill(history, first.process, span);
  if (first.until === Infinity || lateMs <= TELLING_MS) return undefined;
  // While the address of the server moves, the one that was granted first may be the one that keeps the lock.
  const nextEnd = Math.min(span.to, endOf(history, next));
  if (isLost(losses, first, next, span.to) || isLost(losses, next, first, nextEnd)) return undefined;
  const text = `${first.op} lost ${key}, and was told ${lateMs.toFixed(0)} ms after the grant to ${next.op}`;
  return { rule: 'loss-told', t: next.grantedAt!, text };
}
