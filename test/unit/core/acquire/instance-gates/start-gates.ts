import { type StoreHold } from '../../../../../lib/core/hold/store-hold.js';
import { type LockEventMap } from '../../../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A locker whose calls for the key `k` have 20 permits, and two of them in this process, unless they say otherwise. */
export function startGates() {
  const parts = startLocker();
  const { clock, store, locker } = parts;
  const events: (LockEventMap['waiting'] | LockEventMap['acquireFailed'])[] = [];
  for (const name of ['waiting', 'acquireFailed'] as const) locker.events.on(name, (event) => void events.push(event));
  /** Begins a call. */
  const call = (options: Partial<ResolvedLockOptions> = {}, key = 'k'): { value?: StoreHold; error?: any } => {
    const all = lockOptions({ mode: 'read', permits: 20, perInstance: 2, ...options });
    return outcomeOf(locker.acquire(locker.request([key], all)) as Promise<StoreHold>);
  };
  /** Begins as many calls, and lets the store answer. */
  const calls = async (count: number, options?: Partial<ResolvedLockOptions>) => {
    const begun = Array.from({ length: count }, () => call(options));
    await settled();
    return begun;
  };
  /** How many acquires the store was sent. */
  const asked = (): number => store.acquires.length;
  /** Releases what is held until nobody waits any more, and checks that nothing is left. */
  const finish = async (): Promise<void> => {
    for (const lock of locker.holds) {
      await lock.release();
      await settled();
    }
    expect([locker.live, clock.keptAlive]).toEqual([NOTHING, 0]);
  };
  return { ...parts, events, call, calls, asked, finish };
}
