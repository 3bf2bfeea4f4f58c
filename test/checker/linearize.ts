/** An operation of a history takes effect at one moment from `from` to `to`; or at any later one, or never, if `to` is Infinity. */
export interface Operation {
  readonly from: number;
  readonly to: number;
}

/** A sequential object. Its state after a set of operations is the same in each of their orders. */
export interface Sequential<S, O extends Operation> {
  readonly start: S;
  /** The state after an operation, which takes effect at the first possible moment from `time` on; undefined if it cannot be next. */
  next(state: S, operation: O, time: number): { readonly state: S; readonly time: number } | undefined;
  /** Whether an operation without an answer can no longer take effect; the state shows whether it did. */
  isPast?(state: S, operation: O): boolean;
}

/** The operation that has no place after the longest order that was found, and the state there. */
export interface Refutation<S, O> {
  readonly operation: O;
  readonly state: S;
  /** Whether all orders were tried. */
  readonly isComplete: boolean;
}

interface Step<S> {
  /** All operations before this one have taken effect, and these of the later ones. */
  readonly first: number;
  readonly later: ReadonlySet<number>;
  readonly state: S;
  readonly time: number;
  /** Those that may be next, the one that ends first last. */
  readonly candidates: number[];
  /** All operations that have to take effect did. */
  readonly isOver: boolean;
}

/** How many steps are tried among operations that overlap: the number of their orders grows exponentially. */
const MAX_STEPS = 20_000;

/**
 * Searches for an order of operations that an object allows, in which none comes before one that had ended when it began: Wing and
 * Gong, "Testing and Verifying Concurrent Objects" (1993), with the memory of Lowe, "Testing for Linearizability" (2017). A set of
 * operations is tried again only if it takes effect earlier. Where no operations overlap, a window ends, and its steps are
 * forgotten. Returns null if there is an order.
 */
export function linearize<S, O extends Operation>(
  operations: readonly O[],
  object: Sequential<S, O>,
  maxSteps = MAX_STEPS,
): Refutation<S, O> | null {
  const all = operations.toSorted((a, b) => a.from - b.from);
  const isPast = (state: S, one: O | undefined): boolean =>
    one?.to === Infinity && object.isPast?.(state, one) === true;
  const ends = endsOf(
    object.isPast ? all.map(({ to }) => (to === Infinity ? -Infinity : to)) : all.map(({ to }) => to),
  );
  let deepest = stepOf(all, { first: 0, later: new Set(), state: object.start, time: -Infinity });
  let stack = [deepest];
  let known = new Map<string, number>();
  for (let step = stack.at(-1); step && !step.isOver; step = stack.at(-1)) {
    if (known.size > maxSteps) return refutation(all, deepest, false);
    const i = step.candidates.pop();
    if (i === undefined) stack.pop();
    const next = i !== undefined && object.next(step.state, all[i]!, Math.max(step.time, all[i]!.from));
    if (!next || next.time > all[i]!.to) continue;
    const after = stepOf(all, { ...placed(step, i, (at) => isPast(next.state, all[at])), ...next });
    if (after.first + after.later.size > deepest.first + deepest.later.size) deepest = after;
    const name = `${after.first}:${[...after.later].sort((a, b) => a - b).join()}`;
    if (known.get(name)! <= after.time) continue;
    const isEnd = after.later.size === 0 && ends[after.first - 1]! < (all[after.first]?.from ?? Infinity);
    // After an operation without an answer, the state may be another one than without it.
    const isEndOfWindow = isEnd && (all[i]!.to < Infinity || !object.isPast);
    if (isEndOfWindow) [stack, known] = [[after], new Map()];
    else stack.push(after);
    known.set(name, after.time);
  }
  return stack.length > 0 ? null : refutation(all, deepest, true);
}

/** The latest end of each operation and those before it. */
function endsOf(ends: readonly number[]): number[] {
  let end = -Infinity;
  return ends.map((to) => (end = Math.max(end, to)));
}

function placed(
  { first, later }: Step<unknown>,
  i: number,
  isPast: (at: number) => boolean,
): Pick<Step<unknown>, 'first' | 'later'> {
  const rest = new Set(later).add(i);
  let next = first;
  while (rest.delete(next) || isPast(next)) next += 1;
  return { first: next, later: rest };
}

/** An operation may be next if none that is left has to end before it begins. */
function stepOf<S>(all: readonly Operation[], step: Pick<Step<S>, 'first' | 'later' | 'state' | 'time'>): Step<S> {
  const left: number[] = [];
  let end = Infinity;
  for (let i = step.first; i < all.length && all[i]!.from <= end; i += 1) {
    if (step.later.has(i)) continue;
    left.push(i);
    end = Math.min(end, all[i]!.to);
  }
  const candidates = end < step.time ? [] : left.sort((a, b) => all[b]!.to - all[a]!.to);
  return { ...step, candidates, isOver: end === Infinity };
}

function refutation<S, O extends Operation>(
  all: readonly O[],
  { first, later, state }: Step<S>,
  isComplete: boolean,
): Refutation<S, O> {
  const left = all.filter((_, i) => i >= first && !later.has(i)).sort((a, b) => a.to - b.to);
  return { operation: left[0]!, state, isComplete };
}
