import { HeldLock, type Grant, type LockKeeper } from '../../lib/core/held-lock.js';
import { leaseFrom, moment } from '../../lib/core/lease.js';
import { type ResolvedLockOptions } from '../../lib/core/lock-options.js';
import { FakeClock } from './fake-clock.js';

/** The options of an acquisition, all said. */
export const lockOptions = (options: Partial<ResolvedLockOptions> = {}): ResolvedLockOptions => ({
  mode: 'write',
  leaseMs: 3_000,
  waitMs: 10_000,
  maxHoldMs: Infinity,
  holdAtLeastMs: 0,
  renew: true,
  signal: undefined,
  ...options,
});

/** A keeper that does nothing but count. */
export class FakeKeeper implements LockKeeper {
  releases = 0;
  readonly extended: number[] = [];

  constructor(readonly clock: FakeClock = new FakeClock()) {}

  extend = (_lock: HeldLock, leaseMs: number): Promise<void> => {
    this.extended.push(leaseMs);
    return Promise.resolve();
  };

  release = (): Promise<void> => {
    this.releases += 1;
    return Promise.resolve();
  };
}

/** A lock that was granted just now. */
export function heldLock(keeper: LockKeeper = new FakeKeeper(), grant: Partial<Grant> = {}): HeldLock {
  const sent = moment(keeper.clock);
  const { leaseMs = 3_000 } = grant;
  const rest = { mode: 'write', owner: 'client.1', renew: true, maxHoldMs: Infinity, holdAtLeastMs: 0 } as const;
  const ref = { key: 'k', attempt: 'client.1', fencingToken: 100, leaseMs };
  return new HeldLock({ ...ref, ...rest, lease: leaseFrom(sent, leaseMs), sent, ...grant }, keeper);
}
