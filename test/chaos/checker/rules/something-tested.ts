import { type Deed } from '../../events.js';
import { type Call, type History } from '../history.js';
import { type Violation } from '../violation.js';

/** What there must be of each deed. */
const TESTED: Record<Deed, { readonly what: string; readonly isDone: (call: Call) => boolean }> = {
  transfers: { what: 'no lock was adopted', isDone: ({ adopts }) => adopts !== undefined },
  leads: { what: 'nobody was elected', isDone: ({ leads }) => leads },
};

/** A run in which the workers have done nothing of what they do proves nothing about it. */
export function somethingTested(history: History): Violation[] {
  const granted = [...history.calls.values()].filter(({ grantedAt }) => grantedAt !== undefined);
  const deeds = new Set([...history.processes.values()].flatMap(({ does = [] }) => does));
  return [...deeds]
    .filter((deed) => !granted.some(TESTED[deed].isDone))
    .map((deed) => ({ rule: 'nothing-tested', t: history.endedAt, text: TESTED[deed].what }));
}
