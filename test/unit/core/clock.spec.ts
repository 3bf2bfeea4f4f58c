import { systemClock } from '../../../lib/core/clock.js';

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
