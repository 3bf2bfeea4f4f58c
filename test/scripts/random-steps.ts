import * as fc from 'fast-check';

/** What may happen; the numbers `pick` choose among what exists by then. */
export type Action =
  | {
      readonly kind: 'acquire';
      readonly client: string;
      readonly owner: string;
      readonly mode: string;
      readonly leaseMs: number;
      readonly waiterLeaseMs: number;
      readonly fair: number;
      /** Chooses one lock or several of the game. */
      readonly keys: number;
      readonly fire: Fire;
    }
  | { readonly kind: 'poll'; readonly pick: number; readonly last: boolean }
  | {
      readonly kind: 'release';
      readonly pick: number;
      readonly holdAtLeastMs: number;
      readonly runOutcome: string;
      readonly unanswered: number;
      readonly repeated: boolean;
    }
  | { readonly kind: 'renew'; readonly pick: number; readonly leaseMs: number; readonly foreign: boolean }
  | { readonly kind: 'downgrade'; readonly pick: number; readonly foreign: boolean }
  /** Another client continues a hold. */
  | {
      readonly kind: 'adopt';
      readonly pick: number;
      readonly client: string;
      readonly leaseMs: number;
      readonly unanswered: number;
      readonly foreign: boolean;
    }
  | { readonly kind: 'forceRelease'; readonly pick: number }
  | { readonly kind: 'setPermits'; readonly pick: number; readonly permits: number | '-' }
  /** A quorum has chosen a token for a hold: by so much greater than the one that it has. */
  | { readonly kind: 'writeBack'; readonly pick: number; readonly by: number; readonly foreign: boolean }
  /** The server refuses commands from now on, or accepts them again. */
  | { readonly kind: 'condition'; readonly condition: Condition }
  /** The process of the deaf client connects its subscriber, or loses it. */
  | { readonly kind: 'listen'; readonly on: boolean }
  | { readonly kind: 'again'; readonly pick: number };

/** `stranger`: something else is under the key of the last lock. */
export type Condition = 'none' | 'full' | 'replica' | 'stranger';

/** Which fire of a job is claimed; the time of `at` is counted from the begin of the game. */
export interface Fire {
  readonly job: string;
  readonly fireKind: string;
  readonly fireMs: number;
  readonly fireAgeMs: number;
  readonly rerun: number;
}

export interface Step {
  /** How far the clock moves before the action; negative: it is set back. */
  readonly advanceMicros: number;
  readonly action: Action;
}

export interface Game {
  readonly profile: Profile;
  readonly steps: readonly Step[];
}

/** What kind of lock one game is about: a game that mixes all kinds seldom reaches interesting states. */
export interface Profile {
  readonly modes: readonly string[];
  readonly fairness: readonly number[];
  readonly owners: readonly string[];
  readonly permits: number;
  readonly maxWaiters: number;
  /** The permits that a request takes, by its number: each in turn. */
  readonly takes: readonly number[];
  /** How many locks there are. */
  readonly locks: number;
  /** Writers claim fires. */
  readonly jobs: boolean;
  /** Whether the server has all listeners; a node of a cluster does not. */
  readonly counts: boolean;
}

/** The longest one exceeds `keepMs`. */
const LEASES = [1_000, 10_000, 15_000, 40_000];
const NOBODY = '-';
/** The last one has no subscriber: its waiters are dead. */
export const CLIENTS = ['c1-8f2e91a', 'q2-03bd77a', 'c3-a91c40f', 'd4-5be20c6'] as const;
export const DEAD_CLIENT = CLIENTS[3];
/** This one has a subscriber most of the time. */
export const DEAF_CLIENT = CLIENTS[2];

export const JOBS = ['Reports.noon', 'Reports.night'] as const;
const job = fc.constantFrom(JOBS[0], JOBS[0], JOBS[1]);

export const NO_FIRE: Fire = { job: '-', fireKind: '-', fireMs: 0, fireAgeMs: 0, rerun: 0 };
const fire: fc.Arbitrary<Fire> = fc.oneof(
  { weight: 1, arbitrary: fc.constant(NO_FIRE) },
  {
    weight: 4,
    arbitrary: fc.record({
      job,
      fireKind: fc.constant('at'),
      fireMs: fc.nat({ max: 24 }).map((n) => n * 1_000),
      fireAgeMs: fc.constant(0),
      rerun: fc.constantFrom(0, 0, 1),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      job,
      fireKind: fc.constantFrom('slot', 'slot', 'gap'),
      fireMs: fc.constantFrom(2, 8_000),
      fireAgeMs: fc.constantFrom(0, 0, 1, 5_000),
      rerun: fc.constantFrom(0, 0, 1),
    }),
  },
);

const pick = fc.nat({ max: 997 });
const leaseMs = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...LEASES) },
  // The shortest that there is.
  { weight: 1, arbitrary: fc.constant(1) },
);

const SECOND = 1_000_000;
const condition = fc.constantFrom<Condition>('none', 'none', 'none', 'full', 'full', 'replica', 'stranger');

const actions: readonly fc.WeightedArbitrary<Action>[] = [
  {
    weight: 34,
    arbitrary: fc.record({
      kind: fc.constant('acquire' as const),
      client: fc.constantFrom(...CLIENTS.slice(0, 3), ...CLIENTS),
      owner: fc.constantFrom(NOBODY, 'ann', 'bob'),
      mode: fc.constantFrom('write', 'read', 'read'),
      leaseMs,
      waiterLeaseMs: fc.constantFrom(0, 8_000, 30_000, 30_000),
      fair: fc.constantFrom(1, 1, 0),
      keys: pick,
      fire,
    }),
  },
  { weight: 14, arbitrary: fc.record({ kind: fc.constant('poll' as const), pick, last: fc.boolean() }) },
  {
    weight: 26,
    arbitrary: fc.record({
      kind: fc.constant('release' as const),
      pick,
      holdAtLeastMs: fc.constantFrom(0, 0, 0, 0, 5_000, 90_000),
      runOutcome: fc.constantFrom('done', 'failed', '-', 'void'),
      unanswered: fc.constantFrom(0, 0, 1),
      repeated: fc.constantFrom(false, false, true),
    }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      kind: fc.constant('renew' as const),
      pick,
      leaseMs,
      foreign: fc.constantFrom(false, false, false, true),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('downgrade' as const),
      pick,
      foreign: fc.constantFrom(false, false, false, true),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('forceRelease' as const), pick }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('listen' as const), on: fc.boolean() }) },
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('writeBack' as const),
      pick,
      by: fc.constantFrom(0, 1, 7, SECOND, -1, -7, -SECOND),
      foreign: fc.constantFrom(false, false, false, true),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('adopt' as const),
      pick,
      client: fc.constantFrom(...CLIENTS),
      leaseMs,
      unanswered: fc.constantFrom(0, 0, 1),
      foreign: fc.constantFrom(false, false, false, true),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('setPermits' as const),
      pick,
      permits: fc.constantFrom<(number | '-')[]>('-', 0, 1, 2, 3, 4, 5),
    }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('condition' as const), condition }) },
  { weight: 12, arbitrary: fc.record({ kind: fc.constant('again' as const), pick }) },
];

const advanceMicros = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(0, 0, 1, 1_000, SECOND / 2) },
  { weight: 3, arbitrary: fc.constantFrom(3, 7.999, 8, 9.999, 10, 15, 30).map((seconds) => seconds * SECOND) },
  { weight: 1, arbitrary: fc.constantFrom(-1, -1_000, -2 * SECOND, -12 * SECOND, -300 * SECOND, 300 * SECOND) },
  // Just before the record of an unused lock expires, and just after.
  { weight: 1, arbitrary: fc.constantFrom(46.5 * SECOND, 46.5 * SECOND + 1_000) },
);

const profile: fc.Arbitrary<Profile> = fc.record({
  modes: fc.constantFrom(['write'], ['read'], ['write', 'read'], ['write', 'read']),
  fairness: fc.constantFrom([1], [1], [0], [1, 0]),
  owners: fc.constantFrom([NOBODY], [NOBODY, 'ann'], [NOBODY, 'ann', 'bob']),
  permits: fc.constantFrom(0, 0, 1, 2, 3, 5),
  maxWaiters: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, 2),
  takes: fc.constantFrom([1], [1], [1], [1, 2, 3], [2, 1], [3, 1, 1]),
  locks: fc.constantFrom(1, 1, 2, 2, 3),
  jobs: fc.constantFrom(false, false, false, true),
  counts: fc.constantFrom(true, true, true, false),
});

export const gameArbitrary: fc.Arbitrary<Game> = fc.record({
  profile,
  steps: fc.array(fc.record({ advanceMicros, action: fc.oneof(...actions) }), {
    minLength: 1,
    maxLength: 60,
    size: 'max',
  }),
});
