import { Rng } from '../world/rng.js';
import { drawBursts, withMoreAtOnce } from './draw-bursts.js';
import { drawCalls, withoutAwaiting } from './draw-calls.js';
import { drawFaults } from './draw-faults.js';
import {
  type Plan,
  type PlannedCall,
  type PlannedLead,
  type PlannedSlot,
  type PlannedUse,
  type Profile,
  serverCount,
} from './plan.js';

/** Draws the plan of a seed. */
export function drawPlan(seed: number, profileName: string, profile: Profile): Plan {
  const rng = new Rng(seed, 'plan');
  const keys = profile.keys.slice(0, rng.pick(profile.servers === 1 ? [1, 2, 3, 4, 6, 8] : [1, 3, 6, 8]));
  const drawn = Array.from({ length: rng.int(2, 5) }, () => drawSlot(rng, profile));
  const slots = hasTurns(profile) ? withMoreAtOnce(new Rng(seed, 'slots'), drawn) : drawn;
  const awaiting = withoutAwaiting(new Rng(seed, 'releases'), allCalls(seed, profile, keys, slots.length));
  const calls = withSemaphores(new Rng(seed, 'semaphores'), profile, awaiting);
  const { serverDrift, skewMs } = profile;
  const ofServers = (draw: () => number): number[] => Array.from({ length: serverCount(profile) }, draw);
  return {
    seed,
    profileName,
    profile,
    keys,
    slots,
    serverRates: ofServers(() => 1 + rng.float(-serverDrift, serverDrift)),
    serverOffsets: ofServers(() => rng.float(-skewMs, skewMs)),
    // What is drawn from a generator of its own leaves the rest of the plan of a seed as it is.
    calls: withTransfers(new Rng(seed, 'transfers'), profile, calls, slots.length),
    faults: drawFaults(new Rng(seed, 'faults'), profile, keys, slots.length),
    leads: drawLeads(new Rng(seed, 'leads'), profile, slots.length),
  };
}

const hasTurns = ({ shares }: Profile): boolean => shares.turns !== undefined;

function allCalls(seed: number, profile: Profile, keys: readonly string[], slots: number): readonly PlannedCall[] {
  const calls = drawCalls(new Rng(seed, 'calls'), profile, keys, slots);
  if (!hasTurns(profile)) return calls;
  const firstId = Math.max(0, ...calls.map(({ id, nested = [] }) => Math.max(id, ...nested.map((child) => child.id))));
  const bursts = drawBursts(new Rng(seed, 'bursts'), profile, keys, slots, firstId);
  return [...calls, ...bursts].sort((a, b) => a.at - b.at);
}

const drawSlot = (rng: Rng, { drift, servers, rates }: Profile): PlannedSlot => ({
  rate: 1 + rng.float(-drift, drift),
  isGiven: servers === 1 && rng.chance(rates.closeGiven === undefined ? 0.3 : 0.8),
  atOnce: rng.pick(servers === 1 ? [1, 2, 4, 12] : [1, 1, 2, 4]),
  opens: rng.chance(0.7),
});

const KEYS = ['lead', 'other lead'];

/** Lets most processes campaign for one lead, or for two. */
function drawLeads(rng: Rng, { shares, maxLeaseMs }: Profile, slots: number): readonly PlannedLead[] {
  if (shares.leaders === undefined) return [];
  const keys = KEYS.slice(0, rng.int(1, 2));
  return keys.flatMap((key) => {
    const leaseMs = Math.min(maxLeaseMs, rng.pick([1_000, 3_000, 10_000]));
    const campaigning = Array.from({ length: slots }, (_, slot) => slot).filter(() => rng.chance(shares.leaders!));
    return campaigning.map((slot): PlannedLead => {
      const termMs = rng.chance(0.5) ? rng.skewed(20, 15_000) : undefined;
      return { slot, key, leaseMs, termMs, goesOnMs: rng.pick([0, 0, 50, 2_000]) };
    });
  });
}

/** Most calls of a key agree on its permits. */
const PERMITS = [5, 5, 5, 5, 3, 8];

/** Lets some calls take permits of a semaphore, one or several, instead of the lock that they were drawn for. */
function withSemaphores(
  rng: Rng,
  { shares: { semaphores = 0 } }: Profile,
  calls: readonly PlannedCall[],
): readonly PlannedCall[] {
  if (semaphores === 0) return calls;
  return calls.map((call) => {
    if (call.claim || !rng.chance(semaphores)) return call;
    const permits = rng.pick(PERMITS);
    const take = rng.pick([1, 1, 2, 3, permits]);
    // To write inside what one reads is refused.
    return {
      ...call,
      nested: undefined,
      options: { ...call.options, mode: 'read', permits, take: Math.min(take, permits) },
    };
  });
}

/** How long a text is under way to the process that uses it, at most. */
const LONGEST_WAYS_MS = [0, 20, 300, 3_000];

/** Lets some holders of handles transfer their locks instead of releasing them. */
function withTransfers(
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
