import { lossesOf } from '../allowances.js';
import { type Call, type History } from '../history.js';
import { type Violation } from '../violation.js';

/** A fire of a job runs once. */
export function oneRunPerFire(history: History): Violation[] {
  const runs = new Map<string, Call[]>();
  for (const call of history.calls.values()) {
    if (call.fire === undefined || call.grantedAt === undefined) continue;
    const name = `${call.keys[0]} at ${call.fire}`;
    runs.set(name, [...(runs.get(name) ?? []), call]);
  }
  return [...runs].flatMap(([name, calls]) => {
    const inOrder = calls.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
    const second = inOrder.slice(1).find((call, i) => !isForgotten(history, inOrder[i]!, call));
    const text = `the fire of ${name} was run by ${calls.map(({ op }) => op).join(' and ')}`;
    return second ? [{ rule: 'one-run-per-fire' as const, t: second.grantedAt!, text }] : [];
  });
}

/** Whether the record of the first run may have been lost before the second one. */
const isForgotten = (history: History, first: Call, second: Call): boolean =>
  lossesOf(history, first.keys[0]!).some(
    ({ from, to }) => Math.min(first.calledAt, second.calledAt) <= to && second.grantedAt! >= from,
  );
