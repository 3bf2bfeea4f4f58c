import { type Rng } from '../world/rng.js';
import { type HolderStep, type PlannedCall, type PlannedClaim, type Profile } from './plan.js';

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
export function drawCalls(rng: Rng, profile: Profile, keys: readonly string[], slots: number): readonly PlannedCall[] {
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
export const withoutAwaiting = (rng: Rng, calls: readonly PlannedCall[]): readonly PlannedCall[] =>
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
    return x < 0.19
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
