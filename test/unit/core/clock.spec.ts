import { systemClock, wasHeldUp } from '../../../lib/core/clock.js';
import { LATE_MS } from '../../../lib/core/timing.js';
import { FakeClock } from '../../support/core/fake-clock.js';

describe('the clock of the process', () => {
  it('keeps the process alive until the last of its callers is done', () => {
    const alive = (): number => process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length;
    const before = alive();
    const ends = [systemClock.keepAlive!(), systemClock.keepAlive!()];
    const counts = [alive(), ...ends.map((end) => (end(), alive()))];
    const again = systemClock.keepAlive!();
    counts.push(alive());
    again();
    expect([...counts, alive()].map((count) => count - before)).toEqual([1, 1, 0, 1, 0]);
  });
});

describe('a timer', () => {
  it('does not keep the process alive', () => {
    const alive = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = alive();
    const cancel = systemClock.setTimer(() => undefined, 60_000);
    expect(alive()).toBe(before);
    cancel();
  });

  it('was held up when it fires later than a timer may', () => {
    const clock = new FakeClock();
    const at = clock.now();
    clock.jump(LATE_MS);
    expect(wasHeldUp(clock, at)).toBe(false);
    clock.jump(1);
    expect(wasHeldUp(clock, at)).toBe(true);
  });
});
