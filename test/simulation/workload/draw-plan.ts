import { Rng } from '../world/world.js';
import {
  type FaultKind,
  type FaultOf,
  type HolderStep,
  type Plan,
  type PlannedCall,
  type PlannedClaim,
  type PlannedFault,
  type PlannedLead,
  type PlannedSlot,
  type PlannedUse,
  type Profile,
  PROFILES,
  serverCount,
} from './plan.js';

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
function drawFaults(rng: Rng, profile: Profile, keys: readonly string[], slots: number): readonly PlannedFault[] {
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

type Options = PlannedCall['options'];

/** The time between two fires of a job. */
const PERIOD_MS = 2_500;

/** A call that comes a little early is far enough from the last fire. */
const GAP_MS = 100;

const TURN_LEASE_MS = 1_500;

/** The longest wait of a call that does not wait without limit. In a quorum, where a waiter asks every server again, it is shorter. */
const LONGEST_WAIT_MS = 12_000;

/** The mean time between two calls; on average, holders of busy locks hold them for a shorter time. */
const PAUSES_MS = [5, 10, 10, 20, 50, 200];

/** Draws all calls of a run, by the time at which they begin. */
function drawCalls(rng: Rng, profile: Profile, keys: readonly string[], slots: number): readonly PlannedCall[] {
  const calls: PlannedCall[] = [];
  // A call to a quorum is one to each of its servers.
  const pauseMs = rng.pick(PAUSES_MS);
  const meanPauseMs = pauseMs * profile.servers;
  const drawer = new CallDrawer(rng, profile, keys, pauseMs);
  for (let slot = 0; slot < slots; slot += 1) {
    const until = profile.ms;
    for (let at = rng.float(1, 500); at < until; at += rng.exponential(meanPauseMs * slots))
      calls.push(drawer.call(slot, at));
  }
  if (rng.chance(profile.shares.jobs ?? 0.35)) calls.push(...drawer.jobCalls(slots));
  return calls.sort((a, b) => a.at - b.at);
}

/** Lets some calls return before their release. */
const withoutAwaiting = (rng: Rng, calls: readonly PlannedCall[]): readonly PlannedCall[] =>
  calls.map((call) => (rng.chance(0.3) ? { ...call, options: { ...call.options, awaitRelease: false } } : call));

class CallDrawer {
  #nextId = 0;

  constructor(
    private readonly rng: Rng,
    private readonly profile: Profile,
    private readonly keys: readonly string[],
    private readonly pauseMs: number,
  ) {}

  call(slot: number, at: number): PlannedCall {
    const { rng } = this;
    const options = this.#options();
    const entry = rng.pick(['acquire', 'acquire', 'withLock', 'withLock', 'tryAcquire'] as const);
    const call = this.#callWith(slot, at, entry, this.#someKeys(), options);
    if (rng.chance(0.05) && entry === 'acquire') return { ...call, isDropped: true };
    if (rng.chance(this.profile.shares.nested ?? 0.12) && entry === 'withLock')
      return { ...call, nested: this.#nestedIn(call), isDetached: rng.chance(0.3) };
    return call;
  }

  /** Each instance calls the method of a job at each of its fires. */
  jobCalls(slots: number): PlannedCall[] {
    const { rng, profile } = this;
    const calls: PlannedCall[] = [];
    for (let fire = PERIOD_MS; fire < profile.ms; fire += PERIOD_MS) {
      const rerunOnLoss = (fire / PERIOD_MS) % 2 === 1;
      const kind = rng.pick(['at', 'at', 'slot', 'gap'] as const);
      const ms = { at: fire, slot: PERIOD_MS, gap: PERIOD_MS - GAP_MS }[kind];
      const claim = { job: `Jobs.${rerunOnLoss ? 'again' : 'once'}${kind}`, kind, ms, rerunOnLoss } as const;
      for (let slot = 0; slot < slots; slot += 1) calls.push(this.#jobCall(slot, fire + rng.float(0, 30), claim));
    }
    return calls;
  }

  #jobCall(slot: number, at: number, claim: Omit<PlannedClaim, 'ends'>): PlannedCall {
    const { rng } = this;
    const leaseMs = rng.int(300, 2_000);
    const options: Options = { mode: 'write', leaseMs, waitMs: claim.rerunOnLoss ? 2 * leaseMs : 0 };
    const call = this.#callWith(slot, at, 'enter', [`job ${claim.job}`], options);
    const holdMs = rng.chance(0.2) ? rng.float(0, 2_000) : rng.float(0, 60);
    const ends = rng.chance(0.8) ? 'done' : 'failed';
    return { ...call, holdMs, abortMs: undefined, claim: { ...claim, ends } };
  }

  #callWith(
    slot: number,
    at: number,
    entry: PlannedCall['entry'],
    keys: readonly string[],
    options: Options,
  ): PlannedCall {
    const { rng } = this;
    const holdMs = this.#holdMs(options.leaseMs!);
    const id = (this.#nextId += 1);
    const abortMs = rng.chance(0.12) ? Math.ceil(rng.skewed(0, 3_000)) : undefined;
    const afterLossMs = rng.chance(0.5) ? 0 : rng.float(0, 500);
    const listens = rng.chance(0.5);
    return { id, slot, at, entry, keys, options, abortMs, holdMs, steps: this.#steps(holdMs), listens, afterLossMs };
  }

  /** Mostly a moment; sometimes longer than the lease. */
  #holdMs(leaseMs: number): number {
    const { rng, pauseMs } = this;
    if (rng.chance(Math.min(0.25, pauseMs / 3_000))) return rng.skewed(0, leaseMs * 2.5);
    return rng.chance(0.8) ? rng.skewed(0, 20) : rng.skewed(0, 150);
  }

  #someKeys(): readonly string[] {
    const { rng, keys } = this;
    if (keys.length === 1 || !rng.chance(this.profile.shares.severalKeys ?? 0.2)) return [rng.pick(keys)];
    return [...new Set([rng.pick(keys), rng.pick(keys), rng.pick(keys)])];
  }

  #leaseMs(): number {
    const { rng, profile } = this;
    const x = rng.fraction();
    if (profile.shortLeases && x < 0.15) return rng.int(50, 250);
    return x < 0.6 ? rng.int(300, 2_000) : rng.int(1_000, profile.maxLeaseMs);
  }

  #waitMs(): number {
    const { rng, profile } = this;
    const x = rng.fraction();
    if (x < 0.15) return 0;
    return x < 0.15 + (profile.shares.endless ?? 0.04)
      ? Infinity
      : rng.int(1, rng.pick([200, 1_000, 3_000, profile.servers === 1 ? LONGEST_WAIT_MS : 1_500]));
  }

  #options(): Options {
    const { rng, profile, pauseMs } = this;
    const { maxLeaseMs } = profile;
    const hasQueue = profile.servers === 1;
    const mode = rng.chance(0.35) ? 'read' : 'write';
    const options: Options = { mode, leaseMs: this.#leaseMs(), waitMs: this.#waitMs() };
    if (rng.chance(0.15)) options.renew = false;
    if (rng.chance(0.08)) options.maxHoldMs = rng.int(1, 3_000);
    if (rng.chance(0.03)) options.holdAtLeastMs = rng.int(1, 30);
    if (rng.chance(profile.shares.kept ?? Math.min(0.1, pauseMs / 3_000)))
      options.holdAtLeastMs = rng.int(1, rng.pick([300, 3_000, maxLeaseMs]));
    if (mode === 'read' && hasQueue && rng.chance(0.4)) options.permits = rng.int(1, 3);
    if (hasQueue && rng.chance(0.15)) options.fair = false;
    if (rng.chance(profile.shares.owner ?? 0.1)) options.owner = rng.pick(['ann', 'bob', '-']);
    return rng.chance(profile.shares.turns ?? 0) ? this.#turnOptions(options) : options;
  }

  /** The lock is handed on among calls whose leases have the same length. */
  #turnOptions({ waitMs, maxHoldMs }: Options): Options {
    const fair = this.rng.chance(0.1) ? 'strict' : true;
    return { leaseMs: TURN_LEASE_MS, waitMs: waitMs!, fair, ...(maxHoldMs === undefined ? {} : { maxHoldMs }) };
  }

  #steps(holdMs: number): HolderStep[] {
    const { rng, profile } = this;
    const steps: HolderStep[] = [];
    for (let ms = rng.float(0, holdMs); ms < holdMs && steps.length < 4; ms += rng.float(1, holdMs)) {
      const afterMs = ms - steps.reduce((sum, step) => sum + step.afterMs, 0);
      const x = rng.fraction();
      const leaseMs = rng.chance(0.4) ? rng.int(1, 1_500) : rng.int(1, Math.ceil(profile.maxLeaseMs * 1.2));
      if (x < 0.2) steps.push({ afterMs, does: 'extend', leaseMs });
      else if (x < 0.3) steps.push({ afterMs, does: 'downgrade' });
      else if (x < 0.36) steps.push({ afterMs, does: 'inspect' });
      else if (x < 0.4) steps.push({ afterMs, does: 'isLocked' });
    }
    return steps;
  }

  /** Children that start together: they name keys that the outer call holds, and perhaps others. */
  #nestedIn({ slot, keys, options }: PlannedCall): PlannedCall[] {
    const { rng } = this;
    return Array.from({ length: rng.int(1, 3) }, () => {
      // A reader that wants to write is refused.
      const mode = rng.chance(options.mode === 'read' ? 0.9 : 0.4) ? 'read' : 'write';
      const own = rng.chance(0.8) ? [rng.pick(keys)] : [rng.pick(this.keys)];
      // Locks that two callers nest in opposite order are waited for until the limit, so there has to be one.
      const child = { mode, leaseMs: this.#leaseMs(), waitMs: Math.min(this.#waitMs(), LONGEST_WAIT_MS) } as const;
      const call = this.#callWith(slot, 0, 'withLock', own, child);
      return { ...call, steps: [], abortMs: undefined, holdMs: rng.skewed(0, 200) };
    });
  }
}

/** The mean time between two bursts of a process, of all keys; a longer one leaves more to other calls. */
const BURST_PAUSES_MS = [400, 1_000, 3_000];

/** How many calls a burst has. A turn serves 64. */
const SIZES = [2, 2, 4, 4, 12, 12, 40, 100];

/** Leases of calls that hand the lock on: a pause of a process takes a short one up. */
const LEASES_MS = [1_500, 1_500, 400, 200];

/** The share of calls of a run that want to be served in the order of arrival, and so hand nothing on. */
const STRICT = [0, 0.1, 0.1, 0.5];

/** Processes that make many calls at once. */
const withMoreAtOnce = (rng: Rng, slots: readonly PlannedSlot[]): readonly PlannedSlot[] =>
  slots.map((slot) => ({ ...slot, atOnce: rng.pick([4, 12, 40, 120, 120]) }));

/** Bursts of short calls of one process for one key, which hand the lock on; some ask for something else. */
function drawBursts(
  rng: Rng,
  profile: Profile,
  keys: readonly string[],
  slots: number,
  firstId: number,
): readonly PlannedCall[] {
  const drawer = new BurstDrawer(rng, profile, firstId);
  const pauseMs = rng.pick(BURST_PAUSES_MS);
  const calls: PlannedCall[] = [];
  for (let slot = 0; slot < slots; slot += 1) {
    for (let at = rng.float(1, 500); at < profile.ms; at += rng.exponential(pauseMs))
      calls.push(...drawer.burst(slot, at, rng.pick(keys)));
  }
  return calls;
}

class BurstDrawer {
  readonly #leaseMs: number;
  readonly #strict: number;

  constructor(
    private readonly rng: Rng,
    private readonly profile: Profile,
    private nextId: number,
  ) {
    this.#leaseMs = profile.isCalm ? LEASES_MS[0]! : rng.pick(LEASES_MS);
    this.#strict = rng.pick(STRICT);
  }

  burst(slot: number, at: number, key: string): PlannedCall[] {
    const { rng } = this;
    const spreadMs = rng.pick([0, 1, 10, 30]);
    const isQuick = rng.chance(0.4);
    return Array.from({ length: rng.pick(SIZES) }, () => this.#call(slot, at + rng.float(0, spreadMs), key, isQuick));
  }

  #call(slot: number, at: number, key: string, isQuick: boolean): PlannedCall {
    const { rng } = this;
    const holdMs = isQuick ? 0 : this.#holdMs();
    const entry = rng.pick(['acquire', 'withLock', 'withLock'] as const);
    const abortMs = rng.chance(0.08) ? rng.int(1, rng.pick([5, 30, 300])) : undefined;
    const id = (this.nextId += 1);
    const afterLossMs = rng.chance(0.5) ? 0 : rng.float(0, 500);
    const [keys, options, steps] = [[key], this.#options(), isQuick ? [] : this.#steps(holdMs)];
    const call = { id, slot, at, entry, keys, options, abortMs, holdMs, steps, listens: rng.chance(0.5), afterLossMs };
    // A call that asks for something else ends a turn long before its tokens are used up.
    const plain = { mode: 'write', leaseMs: this.#leaseMs, waitMs: 6_000 } as const;
    return this.profile.shares.plain ? { ...call, options: plain, abortMs: undefined, holdMs: 0, steps: [] } : call;
  }

  /** Often too short for a timer, and now and then longer than a turn. */
  #holdMs(): number {
    const { rng } = this;
    const x = rng.fraction();
    if (x < 0.6) return 0;
    return x < 0.96 ? rng.skewed(0, 8) : rng.skewed(0, 400);
  }

  #steps(holdMs: number): PlannedCall['steps'] {
    const { rng } = this;
    if (!rng.chance(0.06)) return [];
    const afterMs = rng.float(0, holdMs);
    const does = rng.pick(['extend', 'downgrade', 'isLocked'] as const);
    return [does === 'extend' ? { afterMs, does, leaseMs: rng.int(1, 2_000) } : { afterMs, does }];
  }

  #options(): Options {
    const { rng } = this;
    const waitMs = rng.pick([rng.int(1, 30), rng.int(1, 400), rng.int(1, 6_000), 6_000, Infinity]);
    const fair = rng.chance(this.#strict) ? 'strict' : true;
    const options: Options = { mode: 'write', leaseMs: this.#leaseMs, waitMs, fair };
    if (rng.chance(0.05)) options.maxHoldMs = rng.int(1, 40);
    const x = rng.fraction();
    if (x < 0.02) options.mode = 'read';
    else if (x < 0.03) options.renew = false;
    else if (x < 0.04) options.fair = false;
    else if (x < 0.05) options.owner = 'ann';
    else if (x < 0.06) options.holdAtLeastMs = rng.int(1, 30);
    else if (x < 0.09) options.leaseMs = rng.int(this.profile.shortLeases ? 50 : 300, 2_000);
    return options;
  }
}

/** Draws the plan of a seed. */
function drawPlan(seed: number, profileName: string, profile: Profile): Plan {
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
    // Draws from a separate generator leave the rest of the plan of a seed unchanged.
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

export const PROFILE_NAMES = Object.keys(PROFILES);

/** The plan of a seed. Seeds take the profiles in turn, unless one is named. */
export function planOf(seed: number, profileName = PROFILE_NAMES[seed % PROFILE_NAMES.length]!): Plan {
  const profile = PROFILES[profileName];
  if (!profile) throw new Error(`Unknown profile ${profileName}; there are ${PROFILE_NAMES.join(', ')}.`);
  return drawPlan(seed, profileName, profile);
}
