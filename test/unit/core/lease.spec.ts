import { leaseFrom, longer, moment, remainingOf } from '../../../lib/core/lease.js';
import { FakeClock } from '../../support/fake-clock.js';

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
});
