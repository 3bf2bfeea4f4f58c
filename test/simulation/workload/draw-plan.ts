import { Rng } from '../world/rng.js';
import { drawBursts, withMoreAtOnce } from './draw-bursts.js';
import { drawCalls, withoutAwaiting } from './draw-calls.js';
import { drawFaults } from './draw-faults.js';
import { drawLeads } from './draw-leads.js';
import { withSemaphores } from './draw-semaphores.js';
import { withTransfers } from './draw-transfers.js';
import { type Plan, type PlannedCall, type PlannedSlot, type Profile, serverCount } from './plan.js';

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
