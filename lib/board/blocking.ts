import { type LockHolder, type LockState, type LockWaiter, readAt } from '../core/store/lock-state.js';
import { callerView, instanceOf } from './query.js';

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

/** Locks deeper than this are roots: a deeper tree cannot be built, sent or shown. */
const MAX_DEPTH = 50;

/**
 * Who blocks whom, for locks with waiters. A caller blocks others by the holds of its owner; without an owner, by all holds of its
 * instance, perhaps of other calls. Each lock is in the tree once: below the first caller that holds it and waits for another one, or as
 * another root.
 */
export function blockingTree(states: readonly LockState[], shown: number): readonly BlockedLock[] {
  const heldBy = statesByName(states, ({ holders }) => holders);
  const waitsFor = statesByName(states, ({ queue }) => queue);
  const placed = new Set<LockState>();
  /** The names below whose first caller are the locks that they hold. */
  const expanded = new Set<string>();
  const nodeOf = (state: LockState, depth = 1): BlockedLock => {
    placed.add(state);
    const { key, holders, queue } = state;
    const nowMs = readAt(state);
    // Of the callers of one instance, only the first lists what they block.
    const mentioned = new Set([state]);
    const belowName = (name: string): BlockedLock[] => {
      const isFirst = !expanded.has(name);
      expanded.add(name);
      const listed: LockState[] = [];
      for (const one of heldBy.get(name) ?? []) {
        if (!isFirst && listed.length === shown) break;
        if (!mentioned.has(one)) listed.push(one);
      }
      for (const one of listed) mentioned.add(one);
      const isListed = isFirst && depth < MAX_DEPTH;
      return listed.map((one) => (isListed && !placed.has(one) ? nodeOf(one, depth + 1) : elsewhere(one)));
    };
    const waiters = queue.slice(0, shown).map((waiter) => {
      const [caller, waitedMs] = callerView(waiter, nowMs);
      return { ...caller, waitedMs, holdsUp: namesOf(waiter).flatMap(belowName) };
    });
    const shownHolders = holders.slice(0, shown).map((holder) => {
      const [caller, heldMs] = callerView(holder, nowMs);
      return { ...caller, heldMs, token: String(holder.fencingToken) };
    });
    const more = holders.length - shownHolders.length + queue.length - waiters.length;
    return { key, isElsewhere: false, holders: shownHolders, waiters, more };
  };
  const isHeldUp = (state: LockState): boolean =>
    state.holders.flatMap(namesOf).some((name) => {
      const waited = waitsFor.get(name) ?? new Set();
      return waited.size > (waited.has(state) ? 1 : 0);
    });
  // Callers that block each other do not have a root: take any of them.
  const first = states.filter((state) => !isHeldUp(state)).map((state) => nodeOf(state));
  return [...first, ...states.flatMap((state) => (placed.has(state) ? [] : nodeOf(state)))];
}

const elsewhere = ({ key }: LockState): BlockedLock => ({ key, isElsewhere: true, holders: [], waiters: [], more: 0 });

/** The locks of each caller, by its names. */
function statesByName(
  states: readonly LockState[],
  callersOf: (state: LockState) => readonly (LockHolder | LockWaiter)[],
): ReadonlyMap<string, ReadonlySet<LockState>> {
  const found = new Map<string, Set<LockState>>();
  for (const state of states) {
    for (const name of callersOf(state).flatMap(namesOf)) {
      const of = found.get(name) ?? new Set();
      found.set(name, of.add(state));
    }
  }
  return found;
}

/** The id of a caller: its owner, or else its instance. An owner without a name is the attempt. */
const namesOf = (caller: LockHolder | LockWaiter): string[] => {
  const instance = `instance ${instanceOf(caller)}`;
  return caller.owner === caller.attempt ? [instance] : [`owner ${caller.owner}`, instance];
};
