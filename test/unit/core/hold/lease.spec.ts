import { leaseFrom, leaseOfPush, longer, moment, remainingOf } from '../../../../lib/core/hold/lease.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

describe('a lease', () => {
  it('is counted from before the command was sent, minus one percent and two milliseconds', () => {
    const clock = new FakeClock(1_000);
    const sent = moment(clock);
    clock.jump(400);
    const lease = leaseFrom(sent, 10_000);
    expect(lease).toEqual({ deadline: 1_000 + 9_898, wallDeadline: sent.wallAt + 9_898 });
    expect(remainingOf(lease, clock)).toBe(9_898 - 400);
  });

  it.each([
    ['has no time left when it has ended', 100, 97, 0, 0],
    ['never has a negative time', 100, 5_000, 0, 0],
    ['has ended already when too little time was left to prove it', 2, 0, 0, 0],
    ['ends by the clock that leaves less: a wall clock ahead means that the machine slept', 1_000, 0, 400, 588],
    ['ends with a sleep that outlasts it', 1_000, 0, 10_400, 0],
    ['is not made longer by a wall clock that is set back', 1_000, 0, -3_600_000, 988],
  ])('%s', (_what, leaseMs, passedMs, wallMs, leftMs) => {
    const clock = new FakeClock();
    const lease = leaseFrom(moment(clock), leaseMs);
    clock.jump(passedMs);
    clock.wallOffsetMs += wallMs;
    expect(remainingOf(lease, clock)).toBe(leftMs);
  });

  it('keeps the later deadline of each clock of two proofs: one from before a sleep does not shorten one from after it', () => {
    const clock = new FakeClock();
    const before = leaseFrom(moment(clock), 30_000);
    const shorter = leaseFrom(moment(clock), 6_000);
    clock.wallOffsetMs += 20_000;
    const after = leaseFrom(moment(clock), 15_000);
    for (const lease of [longer(before, after), longer(after, before)]) {
      expect(lease).toEqual({ deadline: before.deadline, wallDeadline: after.wallDeadline });
      expect(remainingOf(lease, clock)).toBe(15_000 * 0.99 - 2);
    }
    expect([longer(before, shorter), remainingOf(longer(shorter, shorter), clock)]).toEqual([before, 0]);
  });
});

describe('the lease of a grant that was pushed', () => {
  const PROVEN_MS = 2_000 * 0.99 - 2;

  it.each([
    ['is counted from the command that was answered', 600, 0, 0, PROVEN_MS - 600],
    ['has ended when the machine slept since, although its arrival is later by the clock that stood still', 10, 20_000, 0, 0],
    ['ends no later than counted from its arrival by a wall clock that was set back', 600, -3_600_000, 600 - 3_600_000, PROVEN_MS - 600],
  ])('%s', (_what, passedMs, wallMs, fromWallMs, leftMs) => {
    const clock = new FakeClock();
    const sent = moment(clock);
    clock.jump(passedMs);
    clock.wallOffsetMs += wallMs;
    const lease = leaseOfPush(2_000, sent, moment(clock));
    expect(lease).toEqual({ deadline: sent.at + PROVEN_MS, wallDeadline: sent.wallAt + fromWallMs + PROVEN_MS });
    expect(remainingOf(lease, clock)).toBe(leftMs);
  }); // prettier-ignore
});
