import { randomAttempt } from '../../../lib/core/store/attempt-ids.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { type AcquireRequest, type LockStore } from '../../../lib/core/store/lock-store.js';
import { openLocks } from '../../../lib/cli/session.js';
import { type Settings } from '../../../lib/cli/settings.js';
import { closeLater } from '../../support/apps/lock-app.js';

/** Opens the locks of a connection as the tool does; `closeAll` closes them. */
export const openStoreOf = (connection: Settings['connection'], more: Partial<Settings> = {}): LockStore =>
  closeLater(openLocks({ connection, keyPrefix: 'lock:', ...more } as Settings));

/** Sends one acquire for a caller with this text (`host:pid where`), and returns its attempt. */
async function request(
  locks: LockStore,
  key: string,
  holder: string,
  more: Partial<AcquireRequest> = {},
): Promise<{ readonly attempt: string; readonly outcome: string }> {
  const attempt = randomAttempt(locks.clientId, systemRandomness);
  const reply = await locks.acquire(
    {
      keys: [key],
      attempt,
      owner: undefined,
      mode: 'write',
      leaseMs: 600_000,
      waiterLeaseMs: 0,
      fair: true,
      permits: 0,
      holder,
      ...more,
    },
    10_000,
    () => undefined,
  );
  return { attempt, outcome: reply.outcome };
}

/** Has a caller hold a lock. */
export async function hold(
  locks: LockStore,
  key: string,
  holder = 'web-1:4321 OrdersService.charge',
  more: Partial<AcquireRequest> = {},
): Promise<string> {
  const { attempt, outcome } = await request(locks, key, holder, more);
  if (outcome !== 'granted') throw new Error(`${key} was not granted: ${outcome}`);
  return attempt;
}

/** Has a caller wait for a lock. */
export async function wait(locks: LockStore, key: string, holder: string): Promise<string> {
  const { attempt, outcome } = await request(locks, key, holder, { waiterLeaseMs: 600_000 });
  if (outcome !== 'busy') throw new Error(`${key} is not busy: ${outcome}`);
  return attempt;
}
