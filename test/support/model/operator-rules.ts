import { type Tell } from './hand-over.js';
import { type Hold, type MemoryLock, remember } from './memory-lock.js';

/** What `forceRelease` has done. */
export interface Revoked {
  readonly outcome: 'revoked' | 'again';
  readonly holds: number;
}

/** Sets how many permits there are. Waiters that were passed over may fit now. */
export function changePermits(lock: MemoryLock, permits: number | undefined): void {
  if (permits === lock.permits) return;
  lock.permits = permits;
  lock.queue.goBack();
  lock.freed = true;
}

/** The attempts whose holds an operator has seen who looked when this was the last token. */
export function seenHolds({ holds, token }: MemoryLock, seenToken: number): readonly string[] {
  const granted = (hold: Hold): number => hold.token || Math.min(hold.since * 1_000, token);
  const seen = [...holds].filter(([, hold]) => granted(hold) <= seenToken);
  return seen.map(([attempt]) => attempt).toSorted();
}

/** Ends these holds, and notifies the holders. */
export function revoke(lock: MemoryLock, ended: readonly string[], tell: Tell): void {
  for (const attempt of ended.filter((one) => lock.liveHold(one))) {
    remember(lock.released, attempt);
    remember(lock.revoked, attempt);
    lock.rememberLate(attempt);
    tell(attempt, { kind: 'revoked' });
  }
  for (const attempt of ended) lock.end(attempt);
}
