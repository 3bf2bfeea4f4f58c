import { type Action, type Game, type Profile, type Step } from './random-steps.js';

type Acquire = Extract<Action, { kind: 'acquire' }>;

const step = (action: Action): Step => ({ advanceMicros: 1_000, action });
const acquire = (owner: string, mode: string, waiterLeaseMs = 0): Step => {
  const wish: Acquire = { kind: 'acquire', client: 'c1-8f2e91a', owner, mode, leaseMs: 40_000, waiterLeaseMs, fair: 1 };
  return step(wish);
};
// Chosen among the holds, then the waiters, in their order; a pick of 8 or 0 would choose among all there ever were.
const release = (pick: number, minHoldMs = 0): Step => step({ kind: 'release', pick, minHoldMs });
const poll: Step = step({ kind: 'poll', pick: 1, last: false });

const profile: Profile = { modes: ['write', 'read'], fairness: [1], owners: ['-', 'ann'], limit: 0 };

/** Games that random ones seldom reach; each showed a defect once. */
export const KNOWN_GAMES: readonly Game[] = [
  {
    // A parked hold stays untouchable when so many attempts were released since that it is forgotten among them.
    profile,
    steps: [
      acquire('-', 'write'),
      release(1, 90_000),
      ...Array.from({ length: 8 }, () => [acquire('-', 'write', 30_000), release(1)]).flat(),
      step({ kind: 'again', pick: 0 }),
      release(1),
    ],
  },
  {
    // Who waits to write and reads by then must not be granted later: it was told that it never will be.
    profile,
    steps: [
      acquire('-', 'write'),
      acquire('ann', 'read', 30_000),
      acquire('ann', 'write', 30_000),
      release(3),
      poll,
      release(2),
    ],
  },
  {
    // A reader that waited has a later token than its owner's first; the owner's next re-entry gets the later one.
    profile: { ...profile, limit: 2 },
    steps: [
      acquire('ann', 'read'),
      acquire('-', 'read'),
      acquire('ann', 'read', 30_000),
      release(1),
      release(2),
      acquire('ann', 'read'),
    ],
  },
  {
    // Who asks a last time, first in the queue of a lock that has come free, learns it from the reply.
    profile,
    steps: [
      acquire('-', 'write'),
      acquire('-', 'write', 60_000),
      { advanceMicros: 40_000_000, action: { kind: 'poll', pick: 1, last: true } },
    ],
  },
];
