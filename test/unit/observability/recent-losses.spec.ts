import { LockEvents } from '../../../lib/core/lock.events.js';
import { RecentLosses } from '../../../lib/observability/lock-services.js';
import { FakeReporter } from '../../support/core/fake-store.js';

function setUp() {
  const clock = { now: 5_000 };
  const events = new LockEvents(new FakeReporter());
  const losses = new RecentLosses(events, () => clock.now);
  const lose = () => events.emit('lost', () => ({}) as never);
  return { clock, events, losses, lose };
}

describe('the losses of the last minute', () => {
  it('include each loss since the count began, for one minute', () => {
    const { clock, losses, lose } = setUp();
    expect(losses.count).toBe(0);
    lose();
    lose();
    clock.now += 40_000;
    lose();
    expect(losses.count).toBe(3);
    clock.now += 19_999;
    expect(losses.count).toBe(3);
    clock.now += 1;
    expect(losses.count).toBe(1);
    clock.now += 40_000;
    expect(losses.count).toBe(0);
  });

  it('are not counted after stop()', () => {
    const { losses, lose } = setUp();
    losses.stop();
    lose();
    expect(losses.count).toBe(0);
  });
});
