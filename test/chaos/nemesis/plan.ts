import { randomFrom, type Randoms } from '../worker/random.mjs';
import { type FaultKind, type PlannedFault } from './fault-kind.js';

/** A fault, and when it begins, counted from the begin of the run. */
export interface Appointment {
  readonly atMs: number;
  readonly fault: PlannedFault;
}

/** How long the last faults of a run have for their recovery. */
const LAST_CALM_MS = 4_000;

/** Faults begin a little later than planned, and end later. */
const MARGIN_MS = 1_000;

/**
 * Plans the faults of a run; the same seed gives the same plan. They come in bursts of one to three. Half of the pauses are
 * short, so that a fault meets the recovery from another; half are long, so that bounds can be judged. All kinds come in
 * turn, in a random order.
 */
export function planFaults(kinds: readonly FaultKind[], seed: number, lengthMs: number): Appointment[] {
  const random = randomFrom(seed);
  const plan: Appointment[] = [];
  if (kinds.length === 0) return plan;
  const freeAt = new Map<string, number>();
  let keepsDataUntil = 0;
  let deck: FaultKind[] = [];
  for (let atMs = 1_000; atMs < lengthMs - LAST_CALM_MS; atMs += pauseMs(random)) {
    for (let i = random.between(1, 3); i > 0; i--) {
      if (deck.length === 0) deck = shuffled(kinds, random);
      const kind = deck.pop()!;
      const fault = { kind: kind.name, ...kind.plan(randomFrom(random.between(1, 2 ** 31))) };
      const earliest = Math.max(atMs, freeAt.get(fault.target) ?? 0, fault.forgets ? keepsDataUntil : 0);
      if (earliest + fault.lastsMs > lengthMs - LAST_CALM_MS) continue;
      freeAt.set(fault.target, earliest + fault.lastsMs + 200);
      // Several steps back add up.
      if (fault.keepsDataMs) keepsDataUntil = Math.max(keepsDataUntil, earliest) + fault.keepsDataMs + MARGIN_MS;
      plan.push({ atMs: earliest, fault });
      atMs += random.between(0, 800);
    }
  }
  return plan.sort((a, b) => a.atMs - b.atMs);
}

const pauseMs = (random: Randoms): number =>
  random.chance(0.5) ? random.between(300, 1_500) : random.between(4_000, 8_000);

function shuffled<T>(list: readonly T[], random: Randoms): T[] {
  const rest = [...list];
  return list.map(() => rest.splice(random.between(0, rest.length - 1), 1)[0]!);
}
