import { type Action, DEAF_CLIENT, type Game, JOBS, NO_FIRE, type Profile, type Step } from './random-steps.js';

type Acquire = Extract<Action, { kind: 'acquire' }>;

const step = (action: Action, advanceMicros = 1_000): Step => ({ advanceMicros, action });
const plain: Acquire = {
  kind: 'acquire',
  client: 'c1-8f2e91a',
  owner: '-',
  mode: 'write',
  keys: 0,
  fire: NO_FIRE,
  leaseMs: 40_000,
  waiterLeaseMs: 0,
  fair: 1,
};
const request = (fields: Partial<Acquire>, advanceMicros = 1_000): Step => step({ ...plain, ...fields }, advanceMicros);
const acquire = (owner: string, mode: string, waiterLeaseMs = 0): Step => request({ owner, mode, waiterLeaseMs });
const [NOON, NIGHT] = JOBS;
const claim = (
  fireKind: string,
  fireMs: number,
  rerun = 0,
  advanceMicros = 1_000,
  fireAgeMs = 0,
  job: string = NOON,
): Step => request({ fire: { job, fireKind, fireMs, fireAgeMs, rerun } }, advanceMicros);
const claimAtNight = (fireMs: number, advanceMicros = 1_000): Step => claim('at', fireMs, 0, advanceMicros, 0, NIGHT);
// Chosen among the holds, then the waiters, in their order; a pick of 8 or 0 would choose among all there ever were.
const release = (pick: number, holdAtLeastMs = 0, runOutcome = '-', unanswered = 0): Step =>
  step({ kind: 'release', pick, holdAtLeastMs, runOutcome, unanswered });
const done: Step = release(1, 0, 'done');
const downgrade: Step = step({ kind: 'downgrade', pick: 1, foreign: false });
const writeBack = (pick: number, by: number): Step => step({ kind: 'writeBack', pick, by, foreign: false });
const poll: Step = step({ kind: 'poll', pick: 1, last: false });
const full: Step = step({ kind: 'condition', condition: 'full' });

const profile: Profile = {
  modes: ['write', 'read'],
  fairness: [1],
  owners: ['-', 'ann'],
  permits: 0,
  maxWaiters: 0,
  takes: [1],
  locks: 1,
  jobs: false,
};
const job: Profile = { ...profile, modes: ['write'], owners: ['-'], jobs: true };

/** Games that random ones seldom reach; each showed a defect once, or is what tells a mutant from the true scripts. */
export const KNOWN_GAMES: readonly Game[] = [
  {
    // So many are released on the plain path that the first is forgotten.
    profile,
    steps: Array.from({ length: 9 }, () => [request({ leaseMs: 10_000 }), release(1)]).flat(),
  },
  {
    // An attempt is released whose fingerprint another has left meanwhile.
    profile,
    steps: [
      request({ leaseMs: 1_000 }),
      request({ client: 'c2-03bd77a', leaseMs: 10_000 }, 2_000_000),
      // The first one that there ever was.
      release(8),
      release(1),
      release(1),
    ],
  },
  {
    // A quorum raises the token of one hold of an owner that has two: the owner re-enters with it.
    profile,
    steps: [
      acquire('ann', 'read'),
      acquire('ann', 'read'),
      writeBack(1, 7),
      acquire('ann', 'read'),
      release(1),
      release(1),
      release(1),
      acquire('ann', 'write'),
      acquire('ann', 'write'),
      writeBack(1, 7),
      acquire('ann', 'write'),
    ],
  },
  {
    // A full server grants a lock again whose lease is over: it needs no more memory than before.
    profile,
    steps: [acquire('-', 'write'), full, request({}, 41_000_000), release(1), acquire('-', 'write')],
  },
  {
    // A waiter is passed over while its process does not listen; when it sends its request again, it is ahead of those that came later.
    profile,
    steps: [
      acquire('-', 'write'),
      request({ client: DEAF_CLIENT, waiterLeaseMs: 30_000 }),
      request({ client: 'c2-03bd77a', waiterLeaseMs: 30_000 }),
      step({ kind: 'listen', on: false }),
      release(9),
      step({ kind: 'listen', on: true }),
      acquire('-', 'write', 30_000),
      step({ kind: 'poll', pick: 2, last: false }),
      release(9),
    ],
  },
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
    // So many were given back with a command outstanding that the first is forgotten; its command comes then.
    profile,
    steps: [
      acquire('-', 'write'),
      ...Array.from({ length: 17 }, () => acquire('-', 'write')),
      release(9),
      acquire('-', 'write'),
      release(9, 0, '-', 1),
      ...Array.from({ length: 17 }, (_, i) => release(i + 1, 0, '-', 1)),
      step({ kind: 'again', pick: 6 }),
    ],
  },
  {
    // A parked hold has the token 0, and is nobody's to downgrade.
    profile,
    steps: [acquire('-', 'write'), release(1, 90_000), step({ kind: 'downgrade', pick: 2, foreign: true })],
  },
  {
    // A parked re-entry was granted later than its token; an operator who saw that token ends it nevertheless.
    profile,
    steps: [
      acquire('ann', 'write'),
      acquire('ann', 'write'),
      release(1, 90_000),
      release(2),
      step({ kind: 'forceRelease', pick: 4 }),
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
    profile: { ...profile, permits: 2 },
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
    // The first waiter of a lock that has become free learns of its grant from the reply to its last request.
    profile,
    steps: [
      acquire('-', 'write'),
      acquire('-', 'write', 60_000),
      { advanceMicros: 40_000_000, action: { kind: 'poll', pick: 1, last: true } },
    ],
  },
  {
    // Of the unfair, only those are woken whom the lock admits.
    profile: { ...profile, fairness: [0] },
    steps: [
      acquire('-', 'write'),
      request({ mode: 'read', waiterLeaseMs: 30_000, client: 'c2-03bd77a' }),
      request({ mode: 'write', waiterLeaseMs: 30_000, client: 'c3-a91c40f' }),
      step({ kind: 'downgrade', pick: 1, foreign: false }),
    ],
  },
  {
    // The owner still writes, but who is named as the holder reads by now.
    profile,
    steps: [
      acquire('ann', 'write'),
      acquire('ann', 'write'),
      step({ kind: 'downgrade', pick: 1, foreign: false }),
      acquire('-', 'write'),
    ],
  },
  {
    // So many fires that the first are forgotten: what is older than all that are known is not granted.
    profile: job,
    steps: [
      ...Array.from({ length: 17 }, (_, i) => [claim('at', (i + 2) * 1_000), done]).flat(),
      claim('at', 1_000),
      claim('at', 2_000),
      claim('at', 3_000),
      claim('at', 2_500),
      claim('at', 3_500),
    ],
  },
  {
    // A run that was lost is repeated when that is asked for; one that ended is not, nor is an earlier fire.
    profile: job,
    steps: [
      claim('at', 1_000),
      release(1),
      claim('at', 1_000),
      claim('at', 1_000, 1),
      done,
      claim('at', 1_000, 1),
      claim('at', 2_000),
      release(1),
      claim('at', 1_000, 1),
    ],
  },
  {
    // The distance to the last run counts in both directions, to the millisecond.
    profile: job,
    steps: [
      claim('gap', 8_000),
      done,
      claim('gap', 8_000, 0, 7_998_000),
      claim('gap', 8_000, 0, 1_000),
      done,
      claim('gap', 8_000, 0, -5_000_000),
    ],
  },
  {
    // A call belongs to the slot in which it was made, also when its command comes in the next one.
    profile: job,
    steps: [claim('slot', 8_000), done, claim('slot', 8_000, 0, 7_998_000, 1), claim('slot', 8_000, 0, 0)],
  },
  {
    // Each job has its own fires, and its own last run; a release ends that of its own job.
    profile: job,
    steps: [
      claim('at', 1_000),
      done,
      claimAtNight(1_000),
      release(1, 0, 'failed'),
      claim('at', 1_000),
      claimAtNight(1_000),
      claim('at', 2_000),
      release(1, 0, 'void'),
      claimAtNight(2_000),
      claim('at', 2_000),
    ],
  },
  {
    // What is known of the last run of one job says nothing about another: a run of this one was lost.
    profile: job,
    steps: [claim('at', 1_000, 0, 1_000, 0, NIGHT), release(1), claim('at', 1_000, 1, 1_000, 0, NIGHT)],
  },
  {
    // A release ends no run that another attempt of its job, and of its owner, has begun since.
    profile: { ...job, owners: ['-', 'ann'] },
    steps: [1_000, 2_000]
      .map((fireMs) => request({ owner: 'ann', fire: { job: NOON, fireKind: 'at', fireMs, fireAgeMs: 0, rerun: 0 } }))
      .concat(release(2, 0, 'done'), done),
  },
  {
    // A job whose time is over is forgotten when another one is claimed, and no sooner.
    profile: job,
    steps: [
      claim('at', 1_000),
      done,
      claimAtNight(1_000, 47_998_000),
      done,
      claim('at', 1_000),
      claimAtNight(2_000, 2_000_000),
      done,
      claim('at', 1_000),
    ],
  },
  {
    // The time of a job counts from the end of its run, too; while it is run, by an owner who lets others in, it is not over.
    profile: { ...job, owners: ['-', 'ann'] },
    steps: [
      request({ owner: 'ann', fire: { job: NOON, fireKind: 'at', fireMs: 1_000, fireAgeMs: 0, rerun: 0 } }),
      step({ kind: 'renew', pick: 1, leaseMs: 60_000, foreign: false }),
      request(
        { owner: 'ann', fire: { job: NIGHT, fireKind: 'at', fireMs: 1_000, fireAgeMs: 0, rerun: 0 } },
        49_000_000,
      ),
      done,
      done,
      claimAtNight(2_000, 30_000_000),
      done,
      claim('at', 1_000),
      claimAtNight(3_000, 32_000_000),
      done,
      claim('at', 1_000),
    ],
  },
  {
    // A holder that sends its claim again has it.
    profile: job,
    steps: [claim('at', 1_000), step({ kind: 'again', pick: 0 })],
  },
  {
    // A downgrade that is sent again counts the reader once: its owner is gone after one release.
    profile,
    steps: [acquire('ann', 'write'), downgrade, downgrade, release(1), acquire('ann', 'read')],
  },
  {
    // A waiter that enters with its owner leaves the queue.
    profile,
    steps: [
      acquire('-', 'write'),
      acquire('ann', 'write', 30_000),
      acquire('ann', 'write', 30_000),
      release(3),
      poll,
      release(2),
      release(1),
    ],
  },
  {
    // A revocation hands the lock over.
    profile,
    steps: [acquire('-', 'write'), acquire('-', 'write', 30_000), step({ kind: 'forceRelease', pick: 1 })],
  },
  // A waiter asks again, whose place is the only one that the queue may have; on a full server, too.
  { profile: { ...profile, maxWaiters: 1 }, steps: [acquire('-', 'write'), acquire('-', 'write', 30_000), poll] },
  { profile, steps: [acquire('-', 'write'), acquire('-', 'write', 30_000), full, poll] },
  // So does a holder, and one becomes a reader there.
  { profile, steps: [acquire('-', 'write'), full, downgrade] },
  { profile, steps: [acquire('-', 'read'), full, step({ kind: 'again', pick: 0 })] },
  {
    // A queue that is full for several keys.
    profile: { ...profile, locks: 2, maxWaiters: 1 },
    steps: [request({ keys: 2 }), ...Array(2).fill(request({ keys: 3, waiterLeaseMs: 30_000 }))],
  },
  {
    // The clock steps back before a reader is parked: the writer who waits is told when the other reader is gone.
    profile,
    steps: [
      acquire('-', 'read'),
      acquire('-', 'read'),
      acquire('-', 'write', 30_000),
      { ...release(3, 5_000), advanceMicros: -12_000_000 },
      { ...release(3), advanceMicros: 6_000_000 },
    ],
  },
  {
    // The queue is full for the caller who finds that a lease has ended, and those who wait learn of that.
    profile: { ...profile, fairness: [0], permits: 2, maxWaiters: 1 },
    steps: [
      request({ mode: 'read', leaseMs: 1_000 }),
      acquire('-', 'read'),
      acquire('-', 'read', 30_000),
      request({ waiterLeaseMs: 30_000 }, 2_000_000),
    ],
  },
  // A lower token is that of the owner if no other hold writes: neither a parked one nor one that reads does.
  { profile, steps: [acquire('ann', 'write'), acquire('ann', 'write'), writeBack(2, -7)] },
  { profile, steps: [acquire('ann', 'write'), acquire('ann', 'write'), release(1, 90_000), writeBack(2, -7)] },
  { profile, steps: [acquire('ann', 'write'), acquire('ann', 'read'), writeBack(2, -7)] },
  // Of readers, it is that of the greatest hold of this owner.
  { profile, steps: [acquire('ann', 'read'), acquire('ann', 'read'), writeBack(1, 7), writeBack(2, 1)] },
  { profile, steps: [acquire('ann', 'read'), writeBack(1, -7)] },
  { profile, steps: [acquire('ann', 'read'), acquire('-', 'read'), writeBack(2, -7)] },
  {
    // A place that became free is handed over, with more than the new token.
    profile: { ...profile, permits: 2 },
    steps: [
      request({ mode: 'read', leaseMs: 10_000 }),
      acquire('-', 'read'),
      acquire('-', 'read', 30_000),
      { ...writeBack(1, 20_000_000), advanceMicros: 9_998_000 },
    ],
  },
  {
    // One of several keys is of another type: nothing happens to the others, though a lease is over.
    profile: { ...profile, locks: 2 },
    steps: [
      request({ keys: 1, leaseMs: 10_000 }),
      step({ kind: 'condition', condition: 'stranger' }),
      request({ keys: 3 }, 10_000_000),
    ],
  },
  {
    // The leases of several keys may differ, when one of them was renewed for longer; the shortest is what is held.
    profile: { ...profile, locks: 2 },
    steps: [
      request({ keys: 3, leaseMs: 10_000 }),
      step({ kind: 'renew', pick: 332, leaseMs: 40_000, foreign: false }),
      step({ kind: 'again', pick: 0 }),
    ],
  },
];

const adopt = (pick: number, foreign = false): Step =>
  step({ kind: 'adopt', pick, client: DEAF_CLIENT, leaseMs: 10_000, unanswered: 0, foreign });

/** The same, in which holds change hands. */
export const KNOWN_ADOPTIONS: readonly Game[] = [
  {
    // An adoption that is sent again finds the hold as its own.
    profile,
    steps: [acquire('-', 'write'), adopt(1), step({ kind: 'again', pick: 1 }), release(1)],
  },
  // A full server lets a hold change hands.
  { profile, steps: [acquire('-', 'write'), full, adopt(1)] },
  {
    // A parked hold has the token 0, and is nobody's to adopt.
    profile,
    steps: [acquire('-', 'write'), release(1, 90_000), adopt(2, true)],
  },
];

/** The same of semaphores. */
export const KNOWN_SEMAPHORES: readonly Game[] = [];
