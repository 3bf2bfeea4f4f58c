import {
  type Action,
  DEAD_CLIENT,
  DEAF_CLIENT,
  type Game,
  JOBS,
  NO_FIRE,
  type Profile,
  type Step,
} from './random-steps.js';

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
const [writes, reads] = [acquire('-', 'write'), acquire('-', 'read')];
const [annWrites, annReads] = [acquire('ann', 'write'), acquire('ann', 'read')];
const waits = (owner: string, mode: string): Step => acquire(owner, mode, 30_000);
const [NOON, NIGHT] = JOBS;
const claim = (fireKind: string, fireMs: number, rerun = 0, advanceMicros = 1_000, fireAgeMs = 0, rest = {}): Step =>
  request({ fire: { job: NOON, fireKind, fireMs, fireAgeMs, rerun, ...rest } }, advanceMicros);
const claimAtNight = (fireMs: number, advanceMicros = 1_000, rerun = 0): Step =>
  claim('at', fireMs, rerun, advanceMicros, 0, { job: NIGHT });
const annClaims = (job: string, fireMs: number, advanceMicros = 1_000, client = plain.client): Step =>
  request({ client, owner: 'ann', fire: { job, fireKind: 'at', fireMs, fireAgeMs: 0, rerun: 0 } }, advanceMicros);
// Chosen among the holds, then the waiters, in their order; a pick of 8 or 0 would choose among all there ever were.
const release = (pick: number, holdAtLeastMs = 0, runOutcome = '-', unanswered = 0, repeated = false): Step =>
  step({ kind: 'release', pick, holdAtLeastMs, runOutcome, unanswered, repeated });
const [done, voids] = [release(1, 0, 'done'), release(1, 0, 'void')];
const parks = release(1, 90_000);
const downgrade = (pick = 1, foreign = false): Step => step({ kind: 'downgrade', pick, foreign });
const renew = (pick: number, leaseMs: number): Step => step({ kind: 'renew', pick, leaseMs, foreign: false });
const writeBack = (pick: number, by: number): Step => step({ kind: 'writeBack', pick, by, foreign: false });
const poll = (pick = 1, last = false, advanceMicros = 1_000): Step => step({ kind: 'poll', pick, last }, advanceMicros);
const again = (pick: number): Step => step({ kind: 'again', pick });
const revoke = (pick: number): Step => step({ kind: 'forceRelease', pick });
const adopt = (pick: number, foreign = false, unanswered = 0): Step =>
  step({ kind: 'adopt', pick, client: DEAF_CLIENT, leaseMs: 10_000, unanswered, foreign });
const permits = (count: number | '-'): Step => step({ kind: 'setPermits', pick: 1, permits: count });
const after = (ms: number, one: Step): Step => ({ ...one, advanceMicros: 1_000 * ms });
const listens = (on: boolean): Step => step({ kind: 'listen', on });
const full: Step = step({ kind: 'condition', condition: 'full' });
const replica: Step = step({ kind: 'condition', condition: 'replica' });
const none: Step = step({ kind: 'condition', condition: 'none' });
const stranger: Step = step({ kind: 'condition', condition: 'stranger' });
const times = (count: number, stepsOf: (i: number) => readonly Step[]): Step[] =>
  Array.from({ length: count }, (_, i) => stepsOf(i)).flat();
const runs = (count: number, firstMs: number): Step[] => times(count, (i) => [claim('at', firstMs + i * 1_000), done]);

const game = (fields: Partial<Profile>, ...steps: Step[]): Game => ({
  profile: {
    modes: ['write', 'read'],
    fairness: [1],
    owners: ['-', 'ann'],
    permits: 0,
    maxWaiters: 0,
    takes: [1],
    locks: 1,
    jobs: false,
    counts: true,
    ...fields,
  },
  steps,
});
const any: Partial<Profile> = {};
const job: Partial<Profile> = { modes: ['write'], owners: ['-'], jobs: true };
const owned: Partial<Profile> = { modes: ['write'], jobs: true };

/** Games that random ones seldom reach; each showed a defect once, or distinguishes a mutant from the true scripts. */
// prettier-ignore
export const KNOWN_GAMES: readonly Game[] = [
  // Enough are released on the plain path to forget the first.
  game(any, ...times(9, () => [request({ leaseMs: 10_000 }), release(1)])),
  // Of seven that were released, the first is still remembered; of eight, it is not: with and without the fast lane.
  ...[writes, annWrites].flatMap((one) => [7, 8].map((count) => game(any, ...times(count, () => [one, release(1)]), again(0)))),
  // The first is forgotten; its release, which states that it is a repetition, leaves no mark for the next one.
  game(any, ...times(8, () => [writes, release(1)]), ...times(2, () => [release(8, 0, '-', 0, true)])),
  // An attempt is released (8: the first that there ever was) whose fingerprint another has left meanwhile.
  game(any, request({ leaseMs: 1_000 }), request({ client: 'q2-03bd77a', leaseMs: 10_000 }, 2_000_000),
    release(8), release(1), release(1)),
  // A quorum raises the token of one hold of an owner that has two: the owner re-enters with it.
  game(any, annReads, annReads, writeBack(1, 7), annReads, release(1), release(1), release(1),
    annWrites, annWrites, writeBack(1, 7), annWrites),
  // A full server grants a lock again whose lease is over: it needs no more memory than before.
  game(any, writes, full, request({}, 41_000_000), release(1), writes),
  // A waiter is passed over while its process does not listen; when it sends its request again, it is ahead of those that came later.
  game(any, writes, request({ client: DEAF_CLIENT, waiterLeaseMs: 30_000 }),
    request({ client: 'q2-03bd77a', waiterLeaseMs: 30_000 }), listens(false), release(9), listens(true),
    waits('-', 'write'), poll(2), release(9)),
  // A parked hold stays untouchable when enough attempts were released since to forget it.
  game(any, writes, parks, ...times(8, () => [waits('-', 'write'), release(1)]), again(0), release(1)),
  // Enough were given back with a command outstanding to forget the first; its command comes then.
  game(any, writes, ...times(17, () => [writes]), release(9), writes, release(9, 0, '-', 1),
    ...times(17, (i) => [release(i + 1, 0, '-', 1)]), again(6)),
  // A parked hold has the token 0, and no attempt can downgrade it.
  game(any, writes, parks, downgrade(2, true)),
  // A parked re-entry was granted later than its token; an operator who saw that token ends it nevertheless.
  game(any, annWrites, annWrites, parks, release(2), revoke(4)),
  // A caller that waits to write and reads by then must not be granted later: it was refused for good.
  game(any, writes, waits('ann', 'read'), waits('ann', 'write'), release(3), poll(), release(2)),
  // A reader that waited has a later token than its owner's first; the owner's next re-entry gets the later one.
  game({ permits: 2 }, annReads, reads, waits('ann', 'read'), release(1), release(2), annReads),
  // It keeps the later one when the hold that got it has been released, or is over, until its last hold has ended.
  game(any, writes, waits('ann', 'read'), waits('ann', 'read'), release(3), release(1), annReads, annReads, release(1), release(1),
    release(1), annReads, release(1)),
  game(any, writes, waits('ann', 'read'), waits('ann', 'read'), release(3), renew(2, 60_000),
    request({ owner: 'ann', mode: 'read' }, 41_000_000), release(1), release(1), annReads),
  game({ permits: 3 }, annReads, reads, reads, waits('ann', 'read'), release(1), release(1), annReads),
  // The first waiter of a lock that has become free learns of its grant from the reply to its last request.
  game(any, writes, acquire('-', 'write', 60_000), poll(1, true, 40_000_000)),
  // Of the unfair, only those that the lock admits are woken.
  game({ fairness: [0] }, writes, request({ mode: 'read', waiterLeaseMs: 30_000, client: 'q2-03bd77a' }),
    request({ mode: 'write', waiterLeaseMs: 30_000, client: 'c3-a91c40f' }), downgrade()),
  // The owner still writes, but the named holder reads by now.
  game(any, annWrites, annWrites, downgrade(), writes),
  // Enough fires to forget the first: what is older than all remembered ones is not granted.
  game(job, ...runs(17, 2_000), ...[1_000, 2_000, 3_000, 2_500, 3_500].map((ms) => claim('at', ms))),
  // A run that was lost is repeated when that is asked for; one that ended is not, nor is an earlier fire.
  game(job, claim('at', 1_000), release(1), claim('at', 1_000), claim('at', 1_000, 1), done, claim('at', 1_000, 1),
    claim('at', 2_000), release(1), claim('at', 1_000, 1)),
  // The distance to the last run counts in both directions, to the millisecond.
  game(job, claim('gap', 8_000), done, claim('gap', 8_000, 0, 7_998_000), claim('gap', 8_000, 0, 1_000), done,
    claim('gap', 8_000, 0, -5_000_000)),
  // A call belongs to the slot in which it was made, also when its command comes in the next one.
  game(job, claim('slot', 8_000), done, claim('slot', 8_000, 0, 7_998_000, 1), claim('slot', 8_000, 0, 0)),
  // Each job has its own fires, and its own last run; a release ends only the run of its job.
  game(job, claim('at', 1_000), done, claimAtNight(1_000), release(1, 0, 'failed'), claim('at', 1_000),
    claimAtNight(1_000), claim('at', 2_000), voids, claimAtNight(2_000), claim('at', 2_000)),
  // What is known of the last run of one job says nothing about another: a run of this one was lost.
  game(job, claimAtNight(1_000), release(1), claimAtNight(1_000, 1_000, 1)),
  // A release ends no run that another attempt of its job, and of its owner, has begun since.
  game(owned, annClaims(NOON, 1_000), annClaims(NOON, 2_000), release(2, 0, 'done'), done),
  // A job whose time is over is forgotten when another one is claimed, and no sooner.
  game(job, claim('at', 1_000), done, claimAtNight(1_000, 47_998_000), done, claim('at', 1_000),
    claimAtNight(2_000, 2_000_000), done, claim('at', 1_000)),
  // The time of a job also counts from the end of its run; during a run, by an owner who lets others in, it is not over.
  game(owned, annClaims(NOON, 1_000), renew(1, 60_000), annClaims(NIGHT, 1_000, 49_000_000), done, done,
    claimAtNight(2_000, 30_000_000), done, claim('at', 1_000), claimAtNight(3_000, 32_000_000), done, claim('at', 1_000)),
  // A holder that sends its claim again has it.
  game(job, claim('at', 1_000), again(0)),
  // A claim that is void leaves the fires before and after it; at the limit of what is remembered, none runs twice.
  game(job, claim('at', 1_000), done, claim('at', 3_000), done, claim('at', 2_000), voids, claim('at', 3_000)),
  game(job, ...runs(16, 1_000), claim('at', 17_000), voids, claim('at', 1_000)),
  game(job, ...runs(14, 2_000), claim('at', 1_000)),
  // A void takes back a run that an operator has ended, or that has no outcome, and none that has one.
  ...['done', 'failed', '-'].map((outcome) =>
    game(job, claim('at', 1_000), release(1, 0, outcome), release(8, 0, 'void'), claim('at', 1_000))),
  game(job, claim('at', 1_000), revoke(1), release(8, 0, 'void'), claim('at', 1_000)),
  // It takes back no run of an attempt whose name matches as a pattern of Lua (15: the second hold, and the job at noon).
  ...[['c.%S+', 'c.xyz'], ['c.xyz', 'c.%S+']].map(([one, other]) =>
    game(owned, annClaims(NOON, 1_000, 1_000, one), request({ client: other!, owner: 'ann' }), release(15, 0, 'void'))),
  // A caller that is refused within the distance of a run without an outcome gets its attempt.
  game(job, claim('gap', 60_000), claim('gap', 60_000, 0, 41_000_000)),
  // A downgrade that is sent again counts the reader once: its owner is gone after one release.
  game(any, annWrites, downgrade(), downgrade(), release(1), annReads),
  // A waiter that enters with its owner leaves the queue.
  game(any, writes, waits('ann', 'write'), waits('ann', 'write'), release(3), poll(), release(2), release(1)),
  // A revocation hands the lock over.
  game(any, writes, waits('-', 'write'), revoke(1)),
  // A waiter with the only place of the queue asks again; also on a full server.
  game({ maxWaiters: 1 }, writes, waits('-', 'write'), poll()),
  game(any, writes, waits('-', 'write'), full, poll()),
  // So does a holder, and one becomes a reader there.
  game(any, writes, full, downgrade()),
  game(any, reads, full, again(0)),
  // A queue that is full for several keys.
  game({ locks: 2, maxWaiters: 1 }, request({ keys: 2 }), ...times(2, () => [request({ keys: 3, waiterLeaseMs: 30_000 })])),
  // The clock steps back before the next grant, whose token is greater nevertheless.
  game(any, writes, release(1), { ...writes, advanceMicros: -2_000_000 }),
  // The clock steps back before a reader is parked: the writer who waits is woken when the other reader is gone.
  game(any, reads, reads, waits('-', 'write'), { ...release(3, 5_000), advanceMicros: -12_000_000 },
    { ...release(3), advanceMicros: 6_000_000 }),
  // The queue is full for the caller that finds an ended lease, and the waiters are notified of the end.
  game({ fairness: [0], permits: 2, maxWaiters: 1 }, request({ mode: 'read', leaseMs: 1_000 }), reads,
    waits('-', 'read'), request({ waiterLeaseMs: 30_000 }, 2_000_000)),
  // A lower token is that of the owner if no other hold writes: neither a parked one nor one that reads does.
  game(any, annWrites, annWrites, writeBack(2, -7)),
  game(any, annWrites, annWrites, parks, writeBack(2, -7)),
  game(any, annWrites, annReads, writeBack(2, -7)),
  // Of readers, it is that of the greatest hold of this owner.
  game(any, annReads, annReads, writeBack(1, 7), writeBack(2, 1)),
  game(any, annReads, writeBack(1, -7)),
  game(any, annReads, reads, writeBack(2, -7)),
  // A place that became free is handed over, with more than the new token.
  game({ permits: 2 }, request({ mode: 'read', leaseMs: 10_000 }), reads, waits('-', 'read'),
    { ...writeBack(1, 20_000_000), advanceMicros: 9_998_000 }),
  // One of several keys is of another type: nothing happens to the others, though a lease is over.
  game({ locks: 2 }, request({ keys: 1, leaseMs: 10_000 }), stranger, request({ keys: 3 }, 10_000_000)),
  // The leases of several keys may differ, when one of them was renewed for longer; the shortest is what is held.
  game({ locks: 2 }, request({ keys: 3, leaseMs: 10_000 }), renew(332, 40_000), again(0)),
  // The key is not kept for the long lease of a holder that has left, or was revoked, while others hold the lock.
  ...[release(2), revoke(4)].map((ends) =>
    game(any, request({ mode: 'read', leaseMs: 3_600_000 }), reads, ends)),
  // A server that has become a replica sends nothing to the waiters, nor to the holder: it cannot write.
  game(any, writes, waits('-', 'write'), replica, release(2)),
  game(any, writes, waits('-', 'write'), replica, revoke(1)),
  // The first waiter of a writer gives up, behind one that was passed over: the next one learns that it is the first.
  game(any, writes, request({ client: DEAF_CLIENT, waiterLeaseMs: 30_000 }), listens(false), release(2),
    waits('-', 'write'), waits('-', 'write'), waits('-', 'write'), release(2)),
  // Several keys are waited for, of which the queue of the busy one is full: no place is left in the other.
  game({ locks: 2, maxWaiters: 1 }, request({ keys: 2 }), request({ keys: 2, waiterLeaseMs: 30_000 }), request({ keys: 3, waiterLeaseMs: 30_000 })),
  // An adoption that is sent again finds the hold as its own.
  game(any, writes, adopt(1), again(1), release(1)),
  // A full server lets a hold change hands.
  game(any, writes, full, adopt(1)),
  // A parked hold has the token 0, and no attempt can adopt it.
  game(any, writes, parks, adopt(2, true)),
  // The hold that is to be adopted was revoked.
  game(any, writes, revoke(1), adopt(8)),
  // A revocation that comes again also keeps the key.
  game(any, writes, revoke(1), after(60_000, again(1))),
  // What waits for two keys is refused at the second one, and also leaves the first.
  game({ locks: 2, fairness: [1, 0] }, request({ keys: 2 }), request({ keys: 3, owner: 'ann', waiterLeaseMs: 30_000 }), release(332),
    request({ keys: 2, owner: 'ann', mode: 'read', fair: 0 }), poll(1)),
  // No permits are left for readers; writers need none.
  game(any, writes, waits('-', 'write'), permits(0), release(2)),
  // The permits of an operator limit a request that has none.
  game(any, permits(1), reads, reads),
  // Many holds are revoked at once: each holder learns it, also after further revocations or changes of the permits.
  game(any, ...times(17, () => [reads]), revoke(17), ...times(17, (i) => [release(8 * i + 8)])),
  game(any, writes, revoke(1), ...times(40, (i) => [permits(i)]), after(30_000, release(8))),
  // A change of the permits that is sent again does not undo a later one.
  game(any, permits(5), permits(2), again(0)),
  // Seven attempts that have ended are remembered.
  game(any, ...times(7, () => [writes, release(1)]), again(1)),
  // A caller that has given up adopts nothing, though its command comes.
  game(any, writes, writes, replica, adopt(1), none, release(8), again(2)),
  // An acquire of the attempt that held it before comes late, when many others have been released since.
  game(any, writes, adopt(1, false, 1), ...times(8, () => [waits('-', 'write'), release(1)]), again(0)),
  // The place of a dead waiter is free for another.
  game({ maxWaiters: 2 }, writes, waits('-', 'write'), request({ waiterLeaseMs: 8_000 }), after(7_500, renew(3, 40_000)),
    request({ waiterLeaseMs: 30_000 }, 500_000)),
  // Of the unfair, two of different processes are woken.
  game({ fairness: [0] }, writes, waits('-', 'write'), waits('-', 'write'),
    request({ client: 'q2-03bd77a', waiterLeaseMs: 30_000 }), release(4)),
  // An owner that is named like the attempt that writes does not get in.
  game({ owners: ['-', 'c1-8f2e91a.000001'] }, writes, acquire('c1-8f2e91a.000001', 'write')),
  // A full list of late attempts, and the clock steps back behind it.
  game(any, writes, ...times(17, () => [writes]), release(9), ...times(17, (i) => [release(i + 1, 0, '-', 1)]),
    after(-12_000, writes)),
  // After 20 s, a late attempt is forgotten: its acquire is too old by then.
  game(any, writes, release(1, 0, '-', 1), ...times(8, () => [writes, release(1)]), after(21_000, again(0))),
  // A waiter whose first request comes once more after 20 s still waits.
  game(any, writes, waits('-', 'write'), after(21_000, again(1))),
  // What waits for two keys leaves the second one, since the first was taken: the waiter behind it there is granted.
  game({ locks: 2, fairness: [1, 0] }, request({ keys: 2 }), request({ keys: 3, waiterLeaseMs: 30_000 }),
    request({ keys: 2, waiterLeaseMs: 30_000 }), request({ keys: 1, fair: 0 }), release(333), poll(1)),
  // A holder of one of two keys waits for the other one only.
  game({ locks: 2 }, request({ keys: 3, leaseMs: 10_000, waiterLeaseMs: 30_000 }), renew(1, 40_000), request({ keys: 2 }, 10_000_000),
    again(0)),
  // One of several keys is of another type: a hold that is over in the first one is found over later.
  game({ locks: 2 }, request({ keys: 1, owner: 'ann', leaseMs: 10_000 }), stranger, request({ keys: 3 }, 10_000_000), none,
    release(8)),
  // An operator lowers the permits below what the first waiter takes, which is notified; the one behind it fits. Then they are raised.
  game({ modes: ['read'], permits: 5, takes: [1, 5, 1] }, reads, waits('-', 'read'), waits('-', 'read'), permits(3), release(3),
    release(2), permits(5)),
  // Behind a writer that is granted, a waiter that takes more than the permits of an operator is notified.
  game({ permits: 5, takes: [1, 1, 5] }, writes, waits('-', 'write'), waits('-', 'read'), permits(3), release(3)),
  // A node of a cluster does not have the listeners: it grants to a dead waiter, and wakes one of the unfair.
  ...[1, 0].map((fair) =>
    game({ counts: false, fairness: [fair] }, writes, request({ client: DEAD_CLIENT, waiterLeaseMs: 8_000 }), waits('-', 'write'), release(3), poll(2))),
  // A waiter that was passed over is served when it asks, and no sooner, though dead ones are looked for meanwhile.
  game(any, writes, request({ client: DEAF_CLIENT, waiterLeaseMs: 30_000 }),
    request({ client: 'q2-03bd77a', waiterLeaseMs: 30_000 }), listens(false), release(9), listens(true),
    waits('-', 'write'), after(2_000, release(3))),
];

/** Queues of very many: too long for each mutant. One script grants to 64. */
// prettier-ignore
export const LONG_GAMES: readonly Game[] = [
  // Each script continues where the one before it ended: it is that of the first remaining waiter, which was woken.
  game(any, writes, ...times(206, () => [request({ client: 'q2-03bd77a', mode: 'read', waiterLeaseMs: 30_000 })]),
    release(207), poll(142), poll(77), poll(12)),
  // All dead waiters are passed over at once.
  ...[1, 0].map((fair) => game({ fairness: [1, 0] }, writes,
    ...times(260, () => [request({ client: DEAD_CLIENT, waiterLeaseMs: 30_000, fair })]),
    request({ client: 'q2-03bd77a', waiterLeaseMs: 30_000 }), release(262))),
  // Of more, a script passes over a thousand, and its reply asks for another request at once.
  game(any, request({ leaseMs: 5_000 }), ...times(1_099, () => [request({ client: DEAD_CLIENT, waiterLeaseMs: 30_000 })]),
    request({ client: 'q2-03bd77a', waiterLeaseMs: 30_000 }), after(5_000, poll(1_099)), poll(1_099)),
];
