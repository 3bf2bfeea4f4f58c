import { moment } from '../../../lib/core/hold/lease.js';
import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { LockEvents } from '../../../lib/core/lock.events.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { Watchdog } from '../../../lib/core/hold/watchdog.js';
import { FakeKeeper, type GrantParts, heldLock } from './core-parts.js';
import { FakeClock } from './fake-clock.js';
import { FakeReporter, FakeStore } from './fake-store.js';

export const LEASE_MS = 3_000;

/** When the watchdog renews a lease of that length. */
export const THIRD_MS = 1_000;

/** How long that lease is proven. */
export const DEADLINE_MS = 2_968;

/** A watchdog with everything around it; `watched` gives it a lock that was just granted. */
export function startWatchdog() {
  const clock = new FakeClock();
  const [store, reporter, timers] = [new FakeStore(), new FakeReporter(), new TimerQueue(clock)];
  const events = new LockEvents(reporter);
  const watchdog = new Watchdog(clock, timers, store, reporter, events);
  const keeper = new FakeKeeper(clock);
  // As the locker does it.
  keeper.onLost = (lock, error) => {
    watchdog.unwatch(lock);
    reporter.error(error.message);
  };
  const watched = (grant: GrantParts = {}): StoreHold => {
    const lock = heldLock(keeper, grant);
    watchdog.watch(lock, moment(clock));
    return lock;
  };
  const renewing = (remainingMs = LEASE_MS) => {
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'renewed', remainingMs }));
  };
  return { clock, store, reporter, timers, events, watchdog, watched, renewing };
}
