import { commandTimeoutMs } from '../timing.js';
import { heldEvent, heldMsOf } from './held-event.js';
import { type WorkOutcome } from './hold.js';
import { type StoreHold } from './store-hold.js';
import { type LockEvents } from '../lock.events.js';
import { type LockStore } from '../store/lock-store.js';
import { unconfirmedError } from '../error-texts.js';
import { type Releaser } from './releaser.js';
import { lossReason } from './watchdog.js';

/**
 * Gives back all holds of a lock, and tells of it; of a hold that was gone before, it tells the loss. Gives whether the store
 * confirmed that all were held. Never rejects.
 */
export async function releaseHolds(
  lock: StoreHold,
  outcome: WorkOutcome | undefined,
  { releaser, events }: { readonly releaser: Releaser; readonly events: LockEvents },
): Promise<boolean> {
  const heldMs = heldMsOf(lock);
  const { holds, attempt, holdAtLeastMs, leaseMs, job, unanswered } = lock.grant;
  const runOutcome = job === undefined ? undefined : outcome;
  // An extension may have made it longer.
  const lastsMs = Math.max(leaseMs, Math.ceil(lock.deadline - lock.keeper.clock.now()));
  const answers = await Promise.all(
    holds.map(async (hold) => {
      const told = { holdAtLeastMs: holdAtLeastMs, leaseMs: lastsMs, job, runOutcome, unanswered: unanswered() };
      const request = { key: hold.key, attempt, ...told };
      const { reply, asked } = await releaser.release(request, lock.deadline, commandTimeoutMs(leaseMs));
      // When an earlier command went unanswered it may have been the one that released.
      const isReleased = reply?.outcome === 'released' || reply?.outcome === 'again';
      if (!reply || asked > 1 || isReleased) return { isReleased, count: reply?.holds };
      const { lastToken } = reply;
      lock.loseAtRelease(lossReason(hold.fencingToken, { lastToken, revoked: reply.outcome === 'revoked' }));
      return { isReleased, count: reply.holds };
    }),
  );
  if (!lock.lost) events.emit('released', () => ({ ...heldEvent(lock), heldMs, holds: answers[0]!.count }));
  return answers.every(({ isReleased }) => isReleased);
}

/**
 * Makes all holds of a lock read holds.
 * @throws LockLostError, LockStoreError
 */
export async function downgradeHolds(lock: StoreHold, store: LockStore): Promise<void> {
  const { holds, leaseMs } = lock.grant;
  const replies = await Promise.allSettled(holds.map((hold) => store.downgrade(hold, commandTimeoutMs(leaseMs))));
  for (const [i, reply] of replies.entries()) {
    if (reply.status === 'rejected') throw unconfirmedError(lock, 'downgraded', reply.reason);
    if (reply.value.outcome === 'lost') lock.lose(lossReason(holds[i]!.fencingToken, reply.value));
  }
  if (lock.lost) throw lock.lost;
}
