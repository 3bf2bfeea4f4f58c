import { Locker } from '../../../lib/core/acquire/locker.js';
import { Ending } from '../../../lib/core/hold/ending.js';
import { type Hold } from '../../../lib/core/hold/hold.js';
import { leaseFrom, moment } from '../../../lib/core/hold/lease.js';
import { type Grant } from '../../../lib/core/hold/hold-terms.js';
import { type TransferredHold } from '../../../lib/core/hold/transfer-text.js';
import { StoreHold, type HoldKeeper } from '../../../lib/core/hold/store-hold.js';
import { type LockLostError } from '../../../lib/core/lock.errors.js';
import { NO_LABEL } from '../../../lib/core/lock.events.js';
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

/** The end of a hold that has settled. */
function endingAs(isConfirmed: boolean): Ending {
  const ending = new Ending();
  ending.settle(isConfirmed);
  return ending;
}

/** A keeper that only counts. */
export class FakeKeeper implements HoldKeeper {
  releases = 0;
  downgrades = 0;
  givenAway = 0;
  readonly extended: number[] = [];
  readonly losses: LockLostError[] = [];

  constructor(readonly clock: FakeClock = new FakeClock()) {}

  extend = (_lock: StoreHold, leaseMs: number): Promise<void> => {
    this.extended.push(leaseMs);
    return Promise.resolve();
  };

  downgrade = (): Promise<void> => {
    this.downgrades += 1;
    return Promise.resolve();
  };

  onLost = (_lock: StoreHold, error: LockLostError): void => void this.losses.push(error);

  giveAway = (lock: StoreHold): TransferredHold => {
    this.givenAway += 1;
    const { refs, mode, owner, handedOn, terms } = lock;
    const holds = refs.map((ref) => ({ ...ref, unanswered: false }));
    return { ...terms, keyPrefix: '', holds, mode, grantedMode: mode, owner, handedOn };
  };

  end = (): Ending => {
    this.releases += 1;
    return endingAs(true);
  };
}

/** A grant of just now; `key` stands for a single hold with the fencing token 100. */
export type GrantParts = Partial<Grant> & { readonly key?: string };

/** A lock that was granted just now. */
export function heldLock(keeper: HoldKeeper = new FakeKeeper(), { key = 'k', ...grant }: GrantParts = {}): StoreHold {
  const sent = moment(keeper.clock);
  const { leaseMs = 3_000, attempt = 'client.1' } = grant;
  const rest = { mode: 'write', owner: undefined, renew: true, maxHoldMs: Infinity, holdAtLeastMs: 0 } as const;
  const asked = { awaitRelease: true, permits: 0, take: 1, fire: undefined, label: NO_LABEL };
  const told = { holder: 'host:1', waitedMs: 0, serverTimeMs: 0, ...asked, unanswered: () => false };
  const holds = [{ key, attempt, fencingToken: 100 }];
  const timed = { leaseMs, lease: leaseFrom(sent, leaseMs), sent, receivedAt: sent };
  const all = { holds, attempt, handedOn: 0, ...rest, ...told, ...timed, ...grant };
  return new StoreHold(all, all, keeper);
}

/** What each key of `keys` is granted with: 100, 101, ... in the order in which the store is asked. */
function grantAll(store: FakeStore): void {
  let token = 100;
  store.onAcquire = ({ keys, leaseMs }) => granted(leaseMs, ...keys.map(() => token++));
  store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
  store.onRelease = () => released();
  store.onDowngrade = () => ({ outcome: 'downgraded' });
  store.onAdopt = ({ leaseMs }) => ({ outcome: 'adopted', remainingMs: leaseMs });
}

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
  return { clock, store, reporter, locker, enter, under };
}
