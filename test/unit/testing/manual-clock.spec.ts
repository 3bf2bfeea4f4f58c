import { LockConfigurationError } from '../../../lib/index.js';
import { ManualClock } from '../../../lib/testing/index.js';

describe('a ManualClock', () => {
  it('starts at the time that it is given, or now', () => {
    const date = new Date('2030-01-01T12:00:00Z');
    expect([new ManualClock(date).wallNow(), new ManualClock(5).wallNow()]).toEqual([date.getTime(), 5]);
    const before = Date.now();
    const now = new ManualClock().wallNow();
    expect(now >= before && now <= Date.now()).toBe(true);
  });

  it('fires timers in order, each at its time and after the work of the one before', async () => {
    const clock = new ManualClock(0);
    const seen: string[] = [];
    const note = (name: string) => () => {
      seen.push(`${name} ${clock.now()}`);
      void Promise.resolve().then(() => clock.setTimer(() => seen.push(`after ${name} ${clock.now()}`), 5));
    };
    clock.setTimer(note('b'), 20);
    clock.setTimer(note('a'), 10);
    clock.setTimer(note('c'), 31);
    await clock.advance(30);
    expect(seen).toEqual(['a 10', 'after a 15', 'b 20', 'after b 25']);
    expect([clock.now(), clock.wallNow(), clock.timers]).toEqual([30, 30, 1]);
  });

  it('does not fire a cancelled timer, even when a timer of the same time cancels it', async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const cancels: (() => void)[] = [];
    clock.setTimer(() => {
      seen.push('first');
      for (const cancel of cancels) cancel();
    }, 10);
    cancels.push(clock.setTimer(() => seen.push('second'), 10));
    await clock.advance(10);
    clock.setTimer(() => {
      seen.push('third');
      cancels.at(-1)!();
    }, 0);
    cancels.push(clock.setTimer(() => seen.push('fourth'), 0));
    clock.turn();
    expect([seen, clock.timers]).toEqual([['first', 'third'], 0]);
  });

  it('fires no timer while it jumps, and those that are due at the next turn', () => {
    const clock = new ManualClock();
    const seen: number[] = [];
    const fire = () => seen.push(clock.now());
    clock.setTimer(() => clock.setTimer(fire, 0), 10);
    clock.jump(50);
    expect(clock.timers).toBe(1);
    clock.turn();
    expect([seen, clock.timers]).toEqual([[], 1]);
    clock.turn();
    expect([seen, clock.timers]).toEqual([[50], 0]);
  });

  it('sets only the wall clock by wallOffsetMs', async () => {
    const clock = new ManualClock(1_000);
    clock.wallOffsetMs += 500;
    await clock.advance(1);
    expect([clock.now(), clock.wallNow()]).toEqual([1, 1_501]);
  });

  it('never runs back, even when work jumps further than it is advanced', async () => {
    const clock = new ManualClock();
    clock.setTimer(() => clock.jump(100), 10);
    await clock.advance(20);
    expect(clock.now()).toBe(110);
  });

  it.each([-1, Number.NaN, Infinity])('throws when it is to move by %s milliseconds', async (ms) => {
    const clock = new ManualClock();
    await expect(clock.advance(ms)).rejects.toBeInstanceOf(LockConfigurationError);
    expect(() => clock.jump(ms)).toThrow(LockConfigurationError);
    expect(clock.now()).toBe(0);
  });

  it('throws when it is to start at an invalid date', () => {
    expect(() => new ManualClock(new Date('noon'))).toThrow(/to start at a time, got Invalid Date/);
  });
});
