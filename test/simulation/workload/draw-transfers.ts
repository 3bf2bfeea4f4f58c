import { type Rng } from '../world/rng.js';
import { type PlannedCall, type PlannedUse, type Profile } from './plan.js';

/** How long a text is under way to the process that uses it, at most. */
const LONGEST_WAYS_MS = [0, 20, 300, 3_000];

/** Lets some holders of handles transfer their locks instead of releasing them. */
export function withTransfers(
  rng: Rng,
  { shares: { transfers = 0 } }: Profile,
  calls: readonly PlannedCall[],
  slots: number,
): readonly PlannedCall[] {
  if (transfers === 0) return calls;
  let lastId = Math.max(0, ...calls.map(({ id, nested = [] }) => Math.max(id, ...nested.map((child) => child.id))));
  const use = (call: PlannedCall): PlannedUse => {
    const holdMs = rng.chance(0.1) ? rng.skewed(0, call.options.leaseMs! * 2) : rng.skewed(0, 60);
    const steps = rng.chance(0.1) ? [{ afterMs: rng.float(0, holdMs), does: 'isLocked' } as const] : [];
    const own = { id: (lastId += 1), slot: rng.int(0, slots - 1), entry: 'adopt', abortMs: undefined } as const;
    const afterMs = rng.float(0, rng.pick(LONGEST_WAYS_MS));
    return { afterMs, call: { ...call, ...own, holdMs, steps, isDropped: false } };
  };
  return calls.map((call) => {
    if (call.entry !== 'acquire' || call.isDropped || !rng.chance(transfers)) return call;
    const { maxHoldMs: _maxHoldMs, holdAtLeastMs: _holdAtLeastMs, ...options } = call.options;
    const plain = { ...call, options, steps: call.steps.filter(({ does }) => does !== 'extend') };
    // A text may be lost, and delivered twice.
    return { ...plain, handsOn: Array.from({ length: rng.pick([0, 1, 1, 1, 1, 2, 2]) }, () => use(plain)) };
  });
}
