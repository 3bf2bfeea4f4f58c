import { leaseFrom, leaseOfPush, longer, moment, remainingOf } from '../../../../lib/core/hold/lease.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

describe('a lease', () => {
  it('is counted from before the command was sent, less one percent and two milliseconds', () => {
    const clock = new FakeClock(1_000);
    const sent = moment(clock);
    clock.jump(400);
    const lease = leaseFrom(sent, 10_000);
    expect(lease.deadline).toBe(1_000 + 9_898);
    expect(lease.wallDeadline).toBe(clock.wallOffsetMs + 1_000 + 9_898);
    expect(remainingOf(lease, clock)).toBe(9_898 - 400);
  });

  it('has nothing left when it is over, and never less than nothing', () => {
    const clock = new FakeClock();
    const lease = leaseFrom(moment(clock), 100);
    clock.jump(97);
    expect(remainingOf(lease, clock)).toBe(0);
    clock.jump(5_000);
    expect(remainingOf(lease, clock)).toBe(0);
  });

  it('is over already when so little was left that it cannot be proven', () => {
    const clock = new FakeClock();
    expect(remainingOf(leaseFrom(moment(clock), 2), clock)).toBe(0);
  });

  it('ends by the clock that says less: a wall clock ahead means that the machine slept', () => {
    const clock = new FakeClock();
    const lease = leaseFrom(moment(clock), 1_000);
    clock.wallOffsetMs += 400;
    expect(remainingOf(lease, clock)).toBe(588);
    clock.wallOffsetMs += 10_000;
    expect(remainingOf(lease, clock)).toBe(0);
  });

  it('is not made longer by a wall clock that is set back', () => {
    const clock = new FakeClock();
    const lease = leaseFrom(moment(clock), 1_000);
    clock.wallOffsetMs -= 3_600_000;
    expect(remainingOf(lease, clock)).toBe(988);
  });

  it('gives way to a longer proof only, in whatever order they come', () => {
    const clock = new FakeClock();
    const short = leaseFrom(moment(clock), 100);
    const long = leaseFrom(moment(clock), 200);
    expect([longer(short, long), longer(long, short), longer(short, { ...short })]).toEqual([long, long, short]);
  });

  it('keeps of two proofs the later deadline of each clock: one of before a sleep does not shorten one of after it', () => {
    const clock = new FakeClock();
    const before = leaseFrom(moment(clock), 30_000);
    clock.wallOffsetMs += 20_000;
    const after = leaseFrom(moment(clock), 15_000);
    for (const lease of [longer(before, after), longer(after, before)]) {
      expect(lease).toEqual({ deadline: before.deadline, wallDeadline: after.wallDeadline });
      expect(remainingOf(lease, clock)).toBe(15_000 * 0.99 - 2);
    }
  });

  it('is over when all its proofs are of before a sleep that outlasted them', () => {
    const clock = new FakeClock();
    const lease = longer(leaseFrom(moment(clock), 3_000), leaseFrom(moment(clock), 6_000));
    clock.wallOffsetMs += 6_000;
    expect(remainingOf(lease, clock)).toBe(0);
  });
});

describe('the lease of a grant that was pushed', () => {
  /** Granted for 2_000 some time after the command that was told to wait; both clocks go `passed` on until it is heard. */
  const pushed = (passed: (clock: FakeClock) => void) => {
    const clock = new FakeClock();
    const sent = moment(clock);
    passed(clock);
    return { clock, sent, lease: leaseOfPush(2_000, sent, moment(clock)) };
  };
  const PROVEN_MS = 2_000 * 0.99 - 2;

  it('is counted from the command that was answered', () => {
    const { sent, lease } = pushed((clock) => clock.jump(600));
    expect(lease).toEqual({ deadline: sent.at + PROVEN_MS, wallDeadline: sent.wallAt + PROVEN_MS });
  });

  it('is over when the machine slept since, although its arrival is later by the clock that stood still', () => {
    const { clock, sent, lease } = pushed((asleep) => {
      asleep.jump(10);
      asleep.wallOffsetMs += 20_000;
    });
    expect(lease.wallDeadline).toBe(sent.wallAt + PROVEN_MS);
    expect(remainingOf(lease, clock)).toBe(0);
  });

  it('ends no later than counted from its arrival by a wall clock that was set back', () => {
    const { clock, lease } = pushed((set) => {
      set.jump(600);
      set.wallOffsetMs -= 3_600_000;
    });
    expect(lease.wallDeadline).toBe(clock.wallNow() + 2_000 * 0.99 - 2);
    expect(remainingOf(lease, clock)).toBe(PROVEN_MS - 600);
  });
});
