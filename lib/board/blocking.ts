import { type LockHolder, type LockState, type LockWaiter } from '../core/store/lock-state.js';
import { callerView, instanceOf, readAt } from './query.js';

/** A lock with waiting callers. Below it are these callers, and below each of them the locks that it holds and others wait for. */
interface BlockedLock {
  readonly key: string;
  /** Whether it is elsewhere in the tree, together with what is below it. */
  readonly isElsewhere: boolean;
  readonly holders: readonly object[];
  readonly waiters: readonly { readonly holdsUp: readonly BlockedLock[] }[];
  /** How many holders and waiters are not shown. */
  readonly more: number;
}

/**
 * Who blocks whom, for locks with waiters. A caller blocks others by the holds of its owner; without an owner, by all holds of its
 * instance, perhaps of other calls. Each lock is in the tree once.
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
    // Of the callers of one instance, only the first lists what they block.
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
  // Callers that block each other do not have a root: take any of them.
  const first = states.filter((state) => !heldUp.has(state)).map(nodeOf);
  return [...first, ...states.flatMap((state) => (placed.has(state) ? [] : nodeOf(state)))];
}

/** The id of a caller: its owner, or else its instance. An owner without a name is the attempt. */
const namesOf = (caller: LockHolder | LockWaiter): string[] => {
  const instance = `instance ${instanceOf(caller)}`;
  return caller.owner === caller.attempt ? [instance] : [`owner ${caller.owner}`, instance];
};
