import { type StoreHold } from '../../../../../lib/core/hold/store-hold.js';
import { type LockEventMap } from '../../../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { granted } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

export const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** What became of a call so far, whose lock it gives once there is one. */
export interface Call {
  readonly value?: StoreHold;
  readonly error?: unknown;
}

/** A locker whose store reserves tokens with each grant: 1000, 2000, ... */
export function startTurns() {
  const parts = startLocker({ reservesTokens: true });
  const { clock, store, locker } = parts;
  let token = 0;
  store.onAcquire = ({ keys, leaseMs }) => granted(leaseMs, ...keys.map(() => (token += 1_000)));
  const acquired: LockEventMap['acquired'][] = [];
  locker.events.on('acquired', (event) => void acquired.push(event));
  /** Begins a call for the key `k`. */
  const call = (options: Partial<ResolvedLockOptions> = {}, keys = ['k']): Call =>
    outcomeOf(locker.acquire(locker.request(keys, lockOptions(options))) as Promise<StoreHold>);
  const calls = (count: number, options?: Partial<ResolvedLockOptions>): Call[] =>
    Array.from({ length: count }, () => call(options));
  /** Begins a call, and resolves with its lock. */
  const hold = async (options?: Partial<ResolvedLockOptions>): Promise<StoreHold> => {
    const begun = call(options);
    await settled();
    return begun.value!;
  };
  /** The store grants an acquire that it was sent. */
  const push = (index: number, fencingToken: number, serverTimeMs = 0): void =>
    store.listener!.onWakeUp(store.acquires[index]!.request.attempt, {
      kind: 'granted',
      fencingToken,
      remainingMs: 3_000,
      serverTimeMs,
    });
  /** How many acquires and releases the store was sent. */
  const sent = () => [store.acquires.length, store.releases.length];
  /** Which of the calls were handed the lock by another one, in the order of their grants. */
  const local = () => acquired.map((event) => event.local);
  /** Releases what is held until nobody waits any more, and checks that nothing is left. */
  const finish = async (): Promise<void> => {
    for (const lock of locker.holds) await lock.release();
    await settled();
    expect([locker.live, clock.keptAlive]).toEqual([NOTHING, 0]);
  };
  return { ...parts, acquired, call, calls, hold, push, sent, local, finish };
}

/** The calls that have the lock, or had it. */
export const servedOf = (calls: readonly Call[]): boolean[] => calls.map(({ value }) => value !== undefined);
