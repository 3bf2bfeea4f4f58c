import { type FaultRates, type Profile } from './plan.js';

const CALM: Profile = {
  ms: 30_000,
  network: { delayMin: 0.1, delayMax: 6, resend: 0, resendMax: 0 },
  messages: { lost: 0, late: 0, lateMaxMs: 0 },
  drift: 0.0099,
  serverDrift: 0,
  servers: 1,
  skewMs: 0,
  maxLeaseMs: 10_000,
  shortLeases: true,
  rates: {},
  isCalm: true,
  shares: {},
  maxStopMs: 15_000,
  maxCutMs: 12_000,
};

const NETWORK: FaultRates = { reset: 4_000, cut: 9_000, deaf: 9_000, slow: 9_000 };
const PROCESSES: FaultRates = { setWall: 15_000, stop: 7_000, sleep: 20_000, kill: 20_000, shutdown: 30_000 };
const SERVER: FaultRates = { crash: 15_000, stall: 10_000, flushScripts: 10_000, reset: 10_000 };

const BAD_NETWORK: Partial<Profile> = {
  isCalm: false,
  network: { delayMin: 0.1, delayMax: 6, resend: 0.03, resendMax: 800 },
  messages: { lost: 0.05, late: 0.05, lateMaxMs: 4_000 },
};

const QUORUM: Partial<Profile> = { servers: 3, skewMs: 3_000, maxLeaseMs: 3_000, shortLeases: false };

const profile = (...parts: readonly Partial<Profile>[]): Profile => Object.assign({}, CALM, ...parts);
const faults = (...rates: readonly FaultRates[]): Partial<Profile> => ({
  isCalm: false,
  rates: Object.assign({}, ...rates),
});

/** By name. Each seed belongs to one of them, in turn. */
export const PROFILES: Readonly<Record<string, Profile>> = {
  calm: CALM,
  drift: profile({
    drift: 0.0049,
    serverDrift: 0.0049,
    network: { delayMin: 0.5, delayMax: 25, resend: 0, resendMax: 0 },
    shortLeases: false,
  }),
  silent: profile({ messages: { lost: 1, late: 0, lateMaxMs: 0 }, shortLeases: false }),
  network: profile(BAD_NETWORK, faults(NETWORK)),
  processes: profile(faults(PROCESSES)),
  both: profile(BAD_NETWORK, faults(NETWORK, PROCESSES)),
  server: profile(faults(SERVER, { stepClock: 15_000, busyServer: 10_000 })),
  errors: profile(faults({ refuse: 6_000, foreignKey: 12_000, flushScripts: 5_000, crash: 20_000 })),
  operator: profile(BAD_NETWORK, faults({ revoke: 1_500 })),
  wall: profile(faults({ setWall: 3_000, reset: 8_000, stop: 15_000 })),
  given: profile(BAD_NETWORK, faults(NETWORK, { closeGiven: 10_000, stall: 10_000 })),
  long: profile({ maxLeaseMs: 40_000, shortLeases: false, ms: 60_000 }),
  longNetwork: profile(BAD_NETWORK, faults(NETWORK, SERVER), { maxLeaseMs: 40_000, ms: 60_000 }),
  longErrors: profile(faults({ refuse: 12_000 }), { maxLeaseMs: 40_000, shortLeases: false, ms: 60_000 }),
  chaos: profile(
    BAD_NETWORK,
    faults(NETWORK, PROCESSES, SERVER, { revoke: 15_000, refuse: 20_000, stepClock: 30_000 }),
  ),

  owners: profile({ shares: { owner: 0.8 }, shortLeases: false }),
  nested: profile({ shares: { nested: 0.8 }, shortLeases: false }),
  jobs: profile(faults(PROCESSES), { shares: { jobs: 1 } }),
  kept: profile(faults({ kill: 4_000 }), { shares: { kept: 0.4 } }),
  several: profile(faults({ refuse: 6_000, stepClock: 6_000, foreignKey: 3_000 }), { shares: { severalKeys: 0.8 } }),

  quorum: profile(QUORUM),
  quorumNetwork: profile(QUORUM, BAD_NETWORK, faults(NETWORK, { crash: 8_000, reset: 3_000 })),
  quorum5: profile(QUORUM, BAD_NETWORK, faults(NETWORK, PROCESSES, { crash: 5_000 }), { servers: 5, skewMs: 0 }),
  quorumServers: profile(QUORUM, faults(SERVER, PROCESSES), { skewMs: 0 }),
};
