import { Acquisition, type AcquisitionHost } from '../../lib/core/acquisition.js';
import { type Grant } from '../../lib/core/held-lock.js';
import { type ResolvedLockOptions } from '../../lib/core/lock-options.js';
import { TimerQueue } from '../../lib/core/timer-queue.js';
import { lockOptions } from './core-parts.js';
import { FakeClock } from './fake-clock.js';
import { FakeStore } from './fake-store.js';

/** An acquisition of the key `k` that has just begun, all around it, and what became of it. */
export function startAcquisition(options: Partial<ResolvedLockOptions> = {}) {
  const clock = new FakeClock();
  const [store, timers] = [new FakeStore(), new TimerQueue(clock)];
  const attempts: (string | null)[] = [];
  const abandoned: string[] = [];
  let counter = 0;
  const host: AcquisitionHost = {
    clock,
    timers,
    store,
    holder: 'host:1',
    nextAttempt: () => `client.${++counter}`,
    onAttempt: (_acquisition, _before, now) => attempts.push(now),
    abandon: (_key, attempt) => abandoned.push(attempt),
  };
  const acquisition = new Acquisition(host, 'k', lockOptions(options), ' Orders.charge');
  const outcome: { grant?: Grant; error?: unknown } = {};
  acquisition.granted.then(
    (grant) => (outcome.grant = grant),
    (error: unknown) => (outcome.error = error),
  );
  const push = (fencingToken: number, serverTimeMs: number, remainingMs: number) =>
    acquisition.onWakeUp({ kind: 'granted', fencingToken, serverTimeMs, remainingMs });
  return { clock, store, timers, attempts, abandoned, acquisition, outcome, push };
}
