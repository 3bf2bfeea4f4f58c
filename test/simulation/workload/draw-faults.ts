import { type Rng } from '../world/rng.js';
import { type FaultKind, type FaultOf, type PlannedFault, type Profile, serverCount } from './plan.js';

/** What is known when a fault is drawn. */
interface Scene {
  readonly rng: Rng;
  readonly profile: Profile;
  readonly slot: number;
  readonly server: number;
  readonly key: string;
}

type Draw<Kind extends FaultKind> = (scene: Scene) => Omit<FaultOf<Kind>, 'kind' | 'at'>;

/** Errors of Redis, as scripts report them. */
const REFUSALS = [
  "OOM command not allowed when used memory > 'maxmemory'.",
  "READONLY You can't write against a read only replica.",
  'MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
  'NOREPLICAS Not enough good replicas to write.',
  'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
];

/** Both directions, or one of them. */
const directions = (rng: Rng): { up: boolean; down: boolean } =>
  rng.pick([
    { up: true, down: true },
    { up: true, down: false },
    { up: false, down: true },
  ]);

const DRAW: { readonly [Kind in FaultKind]: Draw<Kind> } = {
  reset: ({ rng, slot }) => {
    // One end may learn of it much later: the connection is half open.
    const serverMs = rng.chance(0.1) ? rng.skewed(0, 10_000) : rng.skewed(0, 50);
    return { slot, pick: rng.int(0, 99), clientMs: rng.skewed(0, 50), serverMs };
  },
  deaf: ({ rng, slot }) => ({ slot, pick: rng.int(0, 99), ...directions(rng), ms: rng.float(1_000, 20_000) }),
  cut: ({ rng, slot, server, profile }) => ({
    slot,
    server,
    ...directions(rng),
    ms: rng.skewed(10, profile.maxCutMs),
  }),
  slow: ({ rng, slot, server }) => ({ slot, server, slowMs: rng.skewed(20, 400), ms: rng.float(500, 5_000) }),
  stop: ({ rng, slot, profile }) => ({ slot, ms: rng.skewed(1, profile.maxStopMs) }),
  sleep: ({ rng, slot, profile }) => ({ slot, ms: rng.skewed(1, profile.maxStopMs) }),
  kill: ({ rng, slot }) => ({ slot, ms: rng.skewed(0, 5_000) }),
  shutdown: ({ rng, slot }) => ({ slot, drainMs: rng.int(0, 3_000), ms: rng.skewed(0, 5_000) }),
  setWall: ({ rng, slot, profile }) => {
    // A clock that is set back while the machine sleeps hides the sleep; nothing is promised then.
    const isForward = profile.rates.sleep !== undefined || rng.chance(0.5);
    return { slot, ms: (isForward ? 1 : -1) * rng.skewed(1, 20_000) };
  },
  closeGiven: ({ slot }) => ({ slot }),
  revoke: ({ slot, key }) => ({ slot, key }),
  stall: ({ rng, server }) => ({ server, ms: rng.skewed(10, 4_000) }),
  busyServer: ({ rng, server }) => ({ server, costMs: rng.skewed(0.1, 20), ms: rng.float(200, 3_000) }),
  crash: ({ rng, server, profile }) => {
    const losesData = serverCount(profile) === 1 && rng.chance(0.2);
    const ms = rng.skewed(50, 5_000);
    return { server, ms, losesData, isSilent: rng.chance(0.3), loadingMs: rng.chance(0.3) ? rng.skewed(0, 2_000) : 0 };
  },
  stepClock: ({ rng, server }) => ({ server, ms: rng.pick([-1, -1, 1]) * rng.skewed(1, 8_000) }),
  flushScripts: ({ server }) => ({ server }),
  refuse: ({ rng, server }) => ({ server, text: rng.pick(REFUSALS), ms: rng.float(10, 4_000) }),
  foreignKey: ({ rng, server, key }) => ({ server, key, ms: rng.skewed(10, 3_000) }),
  deleteKey: ({ server, key }) => ({ server, key }),
  failover: ({ rng, profile }) => ({
    shard: rng.int(0, profile.masters - 1),
    how: rng.pick(['planned', 'crash', 'takeover']),
    ms: rng.skewed(50, 10_000),
    pick: rng.chance(0.2) ? 1 : 0,
  }),
  partitionReplica: ({ rng, server }) => ({ server, ms: rng.skewed(100, 8_000) }),
  stopSentinel: ({ rng }) => ({ sentinel: rng.int(0, 2), ms: rng.skewed(100, 8_000), isSilent: rng.chance(0.4) }),
  moveSlot: ({ rng, key, profile }) => ({ key, to: rng.int(0, profile.masters - 1), ms: rng.skewed(5, 1_500) }),
};

/** Draws all faults of a run, by time. They end with the run. */
export function drawFaults(
  rng: Rng,
  profile: Profile,
  keys: readonly string[],
  slots: number,
): readonly PlannedFault[] {
  const faults: PlannedFault[] = [];
  for (const [kind, mean] of Object.entries(profile.rates) as [FaultKind, number][]) {
    for (let at = rng.exponential(mean); at < profile.ms; at += rng.exponential(mean)) {
      const [slot, server] = [rng.int(0, slots - 1), rng.int(0, serverCount(profile) - 1)];
      const drawn = DRAW[kind]({ rng, profile, slot, server, key: rng.pick(keys) });
      faults.push({ kind, at, ...drawn } as PlannedFault);
    }
  }
  return faults.sort((a, b) => a.at - b.at);
}
