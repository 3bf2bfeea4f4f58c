import { randomAttempt } from '../../../lib/core/store/attempt-ids.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { type LockHistoryFacts, NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { type FullLockStore } from '../../../lib/core/store/capabilities.js';
import { type AcquireRequest } from '../../../lib/core/store/lock-store.js';
import { openLocks } from '../../../lib/cli/session.js';
import { type Settings } from '../../../lib/cli/settings.js';
import { type RedisLocks } from '../../../lib/redis/open-store.js';
import { systemClock } from '../../../lib/core/clock.js';
import { closeLater } from '../../support/apps/lock-app.js';

/** Opens the locks of a connection as the tool does; `closeAll` closes them. */
export const openStoreOf = (connection: Settings['connection'], more: Partial<Settings> = {}): RedisLocks =>
  closeLater(openLocks({ connection, keyPrefix: 'lock:', ...more } as Settings));

/** Sends one acquire for a caller with this text (`host:pid where`), and returns its attempt. */
async function request(
  locks: Omit<FullLockStore, 'setPermits'>,
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
  locks: Omit<FullLockStore, 'setPermits'>,
  key: string,
  holder = 'web-1:4321 OrdersService.charge',
  more: Partial<AcquireRequest> = {},
): Promise<string> {
  const { attempt, outcome } = await request(locks, key, holder, more);
  if (outcome !== 'granted') throw new Error(`${key} was not granted: ${outcome}`);
  return attempt;
}

/** Has a caller wait for a lock. */
export async function wait(locks: Omit<FullLockStore, 'setPermits'>, key: string, holder: string): Promise<string> {
  const { attempt, outcome } = await request(locks, key, holder, { waiterLeaseMs: 600_000 });
  if (outcome !== 'busy') throw new Error(`${key} is not busy: ${outcome}`);
  return attempt;
}

/** Writes events to the history, as an app on `web-1` does, the oldest first. */
export async function tell(
  locks: RedisLocks,
  ...facts: readonly (Pick<LockHistoryFacts, 'event'> & Partial<LockHistoryFacts>)[]
): Promise<void> {
  const now = systemClock.now();
  const records = facts.map((one, i) => ({ ...NO_FACTS, ...one, at: now - facts.length + i }));
  const id = randomAttempt(locks.clientId, systemRandomness);
  await locks.history.append({ id, host: 'web-1', pid: 4321, now, maxEntries: 10_000, keepMs: 86_400_000, records });
}

/** Has an instance win the fire of a job, and run it; `outcome`: how the run ends, undefined while it runs. */
export async function runJob(
  locks: Omit<FullLockStore, 'setPermits'>,
  key: string,
  job: string,
  outcome?: 'done' | 'failed',
  { instance = 'web-1:4321', fire = Date.UTC(2026, 10, 26) } = {},
): Promise<void> {
  const at = { kind: 'at', ms: fire, calledAt: systemClock.now(), rememberMs: 600_000, rerunOnLoss: false } as const;
  const attempt = await hold(locks, key, `${instance} ${job}`, { claim: { job, ...at } });
  if (!outcome) return;
  const release = { key, attempt, holdAtLeastMs: 0, leaseMs: 600_000, job, runOutcome: outcome };
  await locks.release(release, 10_000);
}
