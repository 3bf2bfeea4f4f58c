import { type LockHolder, type LockState, type LockWaiter } from '../core/store/lock-state.js';
import { callerView, instanceOf, readAt } from './query.js';

/** A lock that somebody waits for: below it the callers that wait, and below those the locks that they hold up in turn. */
interface BlockedLock {
  readonly key: string;
  /** Whether it is in the tree at another place, which has what is below it. */
  readonly isElsewhere: boolean;
  readonly holders: readonly object[];
  readonly waiters: readonly { readonly holdsUp: readonly BlockedLock[] }[];
  /** How many holders and waiters are not shown. */
  readonly more: number;
}

/**
 * Who blocks whom, of locks that are waited for. A caller holds up what its owner holds; of a call without an owner, no more is known than
 * what its instance holds, perhaps by other calls. Each lock is in the tree once.
 */
export function blockingTree(states: readonly LockState[], shown: number): readonly BlockedLock[] {
  const placed = new Set<LockState>();
  const heldBy = new Map<string, LockState[]>();
  for (const state of states) {
    for (const name of new Set(state.holders.flatMap(namesOf))) heldBy.set(name, [...(heldBy.get(name) ?? []), state]);
  }
  const heldUpBy = (waiter: LockWaiter, state: LockState): LockState[] =>
    [...new Set(namesOf(waiter).flatMap((name) => heldBy.get(name) ?? []))].filter((one) => one !== state);
  const nodeOf = (state: LockState): BlockedLock => {
    const isElsewhere = placed.has(state);
    placed.add(state);
    const { key, holders, queue } = state;
    if (isElsewhere) return { key, isElsewhere, holders: [], waiters: [], more: 0 };
    const nowMs = readAt(state);
    // Of the callers of one instance, the first has what they hold up.
    const mentioned = new Set<LockState>();
    const waiters = queue.slice(0, shown).map((waiter) => {
      const [caller, waitedMs] = callerView(waiter, nowMs);
      const next = heldUpBy(waiter, state).filter((one) => !mentioned.has(one));
      for (const one of next) mentioned.add(one);
      return { ...caller, waitedMs, holdsUp: next.map(nodeOf) };
    });
    const shownHolders = holders.slice(0, shown).map((holder) => {
      const [caller, heldMs] = callerView(holder, nowMs);
      return { ...caller, heldMs, token: String(holder.fencingToken) };
    });
    const more = holders.length - shownHolders.length + queue.length - waiters.length;
    return { key, isElsewhere, holders: shownHolders, waiters, more };
  };
  const heldUp = new Set(states.flatMap((state) => state.queue.flatMap((waiter) => heldUpBy(waiter, state))));
  // Those that hold up each other have no root: any of them is one.
  const first = states.filter((state) => !heldUp.has(state)).map(nodeOf);
  return [...first, ...states.flatMap((state) => (placed.has(state) ? [] : nodeOf(state)))];
}

/** What names a caller: its owner, or else its instance. An owner without a name is the attempt. */
const namesOf = (caller: LockHolder | LockWaiter): string[] => {
  const instance = `instance ${instanceOf(caller)}`;
  return caller.owner === caller.attempt ? [instance] : [`owner ${caller.owner}`, instance];
};
