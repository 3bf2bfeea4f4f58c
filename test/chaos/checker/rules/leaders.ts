import { groupBy } from '../group-by.js';
import { type Call, type History } from '../history.js';
import { type Violation } from '../violation.js';

/**
 * A leader (docs/adr/019) does not lead any more when it was told so, and its process leads again only when the work of its last term
 * has ended. One at a time, rising tokens and the telling are rules of locks: a term is a hold.
 */
export function leaders(history: History): Violation[] {
  const terms = [...history.calls.values()].filter(({ leads, grantedAt }) => leads && grantedAt !== undefined);
  const groups = groupBy(terms, ({ process, keys }) => `${process} ${keys[0]}`);
  return [...groups.values()].flatMap((group) => [...group.flatMap(afterItsEnd), ...besideItsWork(group)]);
}

function afterItsEnd({ op, acts, lostAt = Infinity, releasingAt = Infinity }: Call): Violation[] {
  const overAt = Math.min(lostAt, releasingAt);
  const act = acts.find((t) => t > overAt);
  const text = `${op} led ${((act ?? 0) - overAt).toFixed(1)} ms after it was told of the end of its term`;
  return act === undefined ? [] : [{ rule: 'leaders', t: act, text }];
}

function besideItsWork(terms: readonly Call[]): Violation[] {
  const inOrder = terms.toSorted((a, b) => a.grantedAt! - b.grantedAt!);
  return inOrder.slice(1).flatMap(({ op, grantedAt }, i) => {
    const before = inOrder[i]!;
    const text = `${op} began while the work of ${before.op} went on`;
    return (before.releasedAt ?? Infinity) <= grantedAt! ? [] : [{ rule: 'leaders' as const, t: grantedAt!, text }];
  });
}
