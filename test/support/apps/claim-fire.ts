import { type Hold } from '../../../lib/core/hold/hold.js';
import { type LockOptions, resolveLockOptions } from '../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../lib/core/store/fires.js';
import { RESOLVED_OPTIONS } from '../../../lib/redis-lock.tokens.js';
import { type LockApp } from './lock-app.js';

/** Claims a fire as a decorated method does that must not wait; by default the fire of the first second. */
export function claimFire(
  { app, locker }: LockApp,
  key: string,
  fire: Partial<FireClaim> = {},
  options: LockOptions = {},
): Promise<Hold> {
  const resolved = resolveLockOptions({ waitMs: 0, ...options }, app.get(RESOLVED_OPTIONS));
  const calledAt = locker.clock.now();
  const whole = { job: 'Jobs.run', kind: 'at', ms: 1_000, rememberMs: 60_000, rerunOnLoss: false, calledAt } as const;
  return locker.acquire(locker.request([key], resolved, undefined, { ...whole, ...fire }));
}
