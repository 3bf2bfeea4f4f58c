import { type Rng } from '../world/rng.js';
import { type PlannedCall, type PlannedSlot, type Profile } from './plan.js';

type Options = PlannedCall['options'];

/** The mean time between two bursts of a process, of all keys; a longer one leaves more to other calls. */
const PAUSES_MS = [400, 1_000, 3_000];

/** How many calls a burst has. A turn serves 64. */
const SIZES = [2, 2, 4, 4, 12, 12, 40, 100];

/** Leases of calls that hand the lock on: a pause of a process takes a short one up. */
const LEASES_MS = [1_500, 1_500, 400, 200];

/** The share of calls of a run that want to be served in the order of arrival, and so hand nothing on. */
const STRICT = [0, 0.1, 0.1, 0.5];

/** Processes that make many calls at once. */
export const withMoreAtOnce = (rng: Rng, slots: readonly PlannedSlot[]): readonly PlannedSlot[] =>
  slots.map((slot) => ({ ...slot, atOnce: rng.pick([4, 12, 40, 120, 120]) }));

/** Bursts of short calls of one process for one key, which hand the lock on; some ask for something else. */
export function drawBursts(
  rng: Rng,
  profile: Profile,
  keys: readonly string[],
  slots: number,
  firstId: number,
): readonly PlannedCall[] {
  const drawer = new BurstDrawer(rng, profile, firstId);
  const pauseMs = rng.pick(PAUSES_MS);
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
    return { id, slot, at, entry, keys, options, abortMs, holdMs, steps, listens: rng.chance(0.5), afterLossMs };
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
