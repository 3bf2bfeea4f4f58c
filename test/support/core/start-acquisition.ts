import { type AcquisitionHost } from '../../../lib/core/acquire/request.js';
import { Acquisition } from '../../../lib/core/acquire/acquisition.js';
import { type Grant } from '../../../lib/core/hold/store-hold.js';
import { LockEvents } from '../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../lib/core/store/lock-store.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { lockOptions } from './core-parts.js';
import { FakeClock } from './fake-clock.js';
import { FakeReporter, FakeStore } from './fake-store.js';
import { outcomeOf } from '../waiting/outcome.js';

/** An acquisition of the key `k` that has just begun, all around it, and what became of it. */
export function startAcquisition(
  options: Partial<ResolvedLockOptions> = {},
  { keys = ['k'], claim }: { keys?: readonly string[]; claim?: FireClaim } = {},
) {
  const clock = new FakeClock();
  const [store, timers] = [new FakeStore(), new TimerQueue(clock)];
  const events = new LockEvents(new FakeReporter());
  const attempts: (string | null)[] = [];
  const abandoned: string[] = [];
  /** The attempts whose lock is held. */
  const held = new Set<string>();
  let counter = 0;
  const host: AcquisitionHost = {
    clock,
    timers,
    store,
    events,
    holder: 'host:1',
    nextAttempt: () => `client.${++counter}`,
    onAttempt: (_acquisition, _before, now) => attempts.push(now),
    isHeld: (attempt) => held.has(attempt),
    abandon: (_keys, attempt) => abandoned.push(attempt),
  };
  const label = { where: 'Orders.charge', template: 'k' };
  const acquisition = new Acquisition(host, {
    keys,
    name: keys.join(', '),
    options: lockOptions(options),
    label,
    claim,
    startedAt: clock.now(),
  });
  void acquisition.granted.then(
    ({ attempt }) => held.add(attempt),
    () => undefined,
  );
  const settledAs = outcomeOf(acquisition.granted);
  const outcome = {
    get grant(): Grant | undefined {
      return settledAs.value;
    },
    get error(): unknown {
      return settledAs.error;
    },
  };
  const push = (fencingToken: number, serverTimeMs: number, remainingMs: number) =>
    acquisition.onWakeUp({ kind: 'granted', fencingToken, serverTimeMs, remainingMs });
  return { clock, store, timers, events, attempts, abandoned, held, acquisition, outcome, push };
}
