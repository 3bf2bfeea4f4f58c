import { leaseFrom, leaseOfPush, longer, moment, remainingOf } from '../../../../lib/core/hold/lease.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

describe('a lease', () => {
  it('is counted from before the command was sent, minus one percent and two milliseconds', () => {
    const clock = new FakeClock(1_000);
    const sent = moment(clock);
    clock.jump(400);
    const lease = leaseFrom(sent, 10_000);
    expect(lease.deadline).toBe(1_000 + 9_898);
    expect(lease.wallDeadline).toBe(sent.wallAt + 9_898);
    expect(remainingOf(lease, clock)).toBe(9_898 - 400);
  });

  it('has no time left when it has ended, and never a negative time', () => {
    const clock = new FakeClock();
    const lease = leaseFrom(moment(clock), 100);
    clock.jump(97);
    expect(remainingOf(lease, clock)).toBe(0);
    clock.jump(5_000);
    expect(remainingOf(lease, clock)).toBe(0);
  });

  it('has ended already when too little time was left to prove it', () => {
    const clock = new FakeClock();
    expect(remainingOf(leaseFrom(moment(clock), 2), clock)).toBe(0);
  });

  it('ends by the clock that leaves less: a wall clock ahead means that the machine slept', () => {
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

  it('is replaced only by a longer proof, whatever their order', () => {
    const clock = new FakeClock();
    const short = leaseFrom(moment(clock), 100);
    const long = leaseFrom(moment(clock), 200);
    expect([longer(short, long), longer(long, short), longer(short, { ...short })]).toEqual([long, long, short]);
  });

  it('keeps the later deadline of each clock: a proof from before a sleep does not shorten one from after it', () => {
    const clock = new FakeClock();
    const before = leaseFrom(moment(clock), 30_000);
    clock.wallOffsetMs += 20_000;
    const after = leaseFrom(moment(clock), 15_000);
    for (const lease of [longer(before, after), longer(after, before)]) {
      expect(lease).toEqual({ deadline: before.deadline, wallDeadline: after.wallDeadline });
      expect(remainingOf(lease, clock)).toBe(15_000 * 0.99 - 2);
    }
  });

  it('has ended when all its proofs are from before a sleep that outlasted them', () => {
    const clock = new FakeClock();
    const lease = longer(leaseFrom(moment(clock), 3_000), leaseFrom(moment(clock), 6_000));
    clock.wallOffsetMs += 6_000;
    expect(remainingOf(lease, clock)).toBe(0);
  });
});

describe('the lease of a grant that was pushed', () => {
  /** A grant of 2_000 ms some time after the busy reply; both clocks advance by `passed` before the message arrives. */
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

  it('has ended when the machine slept since, although its arrival is later by the clock that stood still', () => {
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
    expect(lease.wallDeadline).toBe(moment(clock).wallAt + PROVEN_MS);
    expect(remainingOf(lease, clock)).toBe(PROVEN_MS - 600);
  });
});
