import { type TransferredHold } from '../../../lib/core/hold/transfer-text.js';
import { Locker } from '../../../lib/core/acquire/locker.js';
import { type Hold } from '../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../lib/core/lock.options.js';
import { systemRuntime } from '../../../lib/core/runtime.js';
import { enterLock } from '../../../lib/core/reentry/enter-lock.js';
import { runWithLock } from '../../../lib/core/reentry/run.js';
import { FakeClock } from './fake-clock.js';
import { FakeReporter, FakeStore, granted, released } from './fake-store.js';

/** The complete options of an acquisition. */
export const lockOptions = (options: Partial<ResolvedLockOptions> = {}): ResolvedLockOptions => ({
  mode: 'write',
  leaseMs: 3_000,
  waitMs: 10_000,
  maxWaiters: 0,
  maxHoldMs: Infinity,
  holdAtLeastMs: 0,
  renew: true,
  permits: 0,
  take: 1,
  perInstance: 0,
  fair: true,
  owner: undefined,
  note: '',
  signal: undefined,
  reentrant: true,
  awaitRelease: true,
  ...options,
});

/** What each key of `keys` is granted with: 100, 101, ... in the order in which the store is asked. */
function grantAll(store: FakeStore): void {
  let token = 100;
  store.onAcquire = ({ keys, leaseMs }) => granted(leaseMs, ...keys.map(() => token++));
  store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
  store.onRelease = () => released();
  store.onAdopt = ({ leaseMs }) => ({ outcome: 'adopted', remainingMs: leaseMs });
}

/** The contents of an unused locker. */
export const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A locker on a store that grants everything at once, unless the test takes its answers away. */
export function startLocker({
  clock = new FakeClock(),
  clientId = 'client',
  reservesTokens = false,
  store = new FakeStore(clientId, reservesTokens),
} = {}) {
  const reporter = new FakeReporter();
  grantAll(store);
  const locker = new Locker(systemRuntime(clock), store, reporter, 'host:1');
  const enter = async (keys: string | readonly string[], options: Partial<ResolvedLockOptions> = {}): Promise<Hold> => {
    const all = typeof keys === 'string' ? [keys] : keys;
    return enterLock(locker, locker.request(all, lockOptions(options)));
  };
  /** Runs `work` under the lock, as `withLock` and the decorators do. */
  const under = async <T>(
    keys: string | readonly string[],
    work: (lock: Hold) => T | Promise<T>,
    options: Partial<ResolvedLockOptions> = {},
  ): Promise<T> => runWithLock(await enter(keys, options), work);
  /** An operator revokes the lock of an acquire: by default, the first one. */
  const revoke = (nth = 0): void => store.listener!.onWakeUp(store.acquires[nth]!.request.attempt, { kind: 'revoked' });
  return { clock, store, reporter, locker, enter, under, revoke };
}

/** A hold that changes hands. */
export const transferred = (own: Pick<TransferredHold, 'keyPrefix' | 'holds' | 'leaseMs'>): TransferredHold => ({
  mode: 'write',
  grantedMode: 'write',
  owner: undefined,
  handedOn: 0,
  renew: true,
  maxHoldMs: Infinity,
  holdAtLeastMs: 0,
  ...own,
});
