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
    const [first, second] = calls.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
    if (!first || !second) return [];
    const isForgotten = lossesOf(history, first.keys[0]!).some(
      ({ from, to }) => Math.min(first.calledAt, second.calledAt) <= to && second.grantedAt! >= from,
    );
    const text = `the fire of ${name} was run by ${calls.map(({ op }) => op).join(' and ')}`;
    return isForgotten ? [] : [{ rule: 'one-run-per-fire' as const, t: second.grantedAt!, text }];
  });
}
