import { type Ask, type Hold } from './commands.js';
import { type LockLists } from './lock-lists.js';

const FIRES = 16;

/** Whether the holds that there are leave room for one more; parked ones count. */
export function admits(lock: LockLists, { mode, limit }: Ask): boolean {
  const held = [...lock.holds.values()];
  if (mode === 'write') return held.length === 0;
  return held.every((hold) => hold.mode === 'read') && (limit === 0 || held.length < limit);
}

/** The token with which a named owner that holds the lock enters it once more. */
export function entry(lock: LockLists, ask: Ask): number | undefined {
  if (ask.owner === '-') return undefined;
  const mine = lock.live(ask.owner);
  const writing = mine.find(({ mode }) => mode === 'write');
  return writing ? writing.token : admits(lock, ask) ? mine[0]?.entry : undefined;
}

/** The readers of one owner enter with the greatest token that any of them got. */
export function shareEntry(lock: LockLists, hold: Hold): void {
  if (hold.owner === '-') return;
  const readers = lock.live(hold.owner).filter(({ mode }) => mode === 'read');
  const greatest = Math.max(...readers.map((reader) => reader.entry));
  for (const reader of readers) reader.entry = greatest;
}

/** Why the ask is refused, if it is. */
export function refusal(lock: LockLists, ask: Ask): string | undefined {
  if (lock.liveHold(ask.attempt)) return undefined;
  if (lock.holds.has(ask.attempt) || lock.wasReleased(ask.attempt)) return 'released';
  const mine = ask.owner === '-' ? [] : lock.live(ask.owner);
  const upgrades = ask.mode === 'write' && mine.length > 0 && mine.every(({ mode }) => mode === 'read');
  if (upgrades) return 'upgrade';
  return isClaimed(lock, ask) ? 'claimed' : undefined;
}

function fireOf({ fireKind, fireMs, fireAgeMs }: Ask, now: number): number {
  if (fireKind === 'at') return fireMs;
  return fireKind === 'slot' ? Math.floor((now - fireAgeMs) / fireMs) * fireMs : now;
}

function isClaimed({ run, fires, now }: LockLists, ask: Ask): boolean {
  if (ask.fireKind === '-' || !run) return false;
  const fire = fireOf(ask, now);
  const rerun = ask.rerun === 1 && run.outcome === '-';
  if (ask.fireKind === 'gap') return Math.abs(now - run.fire) < ask.fireMs && !rerun;
  const known = fires.includes(fire) || (fires.length >= FIRES - 1 && fire < fires[0]!);
  return known && !(rerun && run.fire === fire);
}

/** The attempt whose run of the asked fire has no outcome yet; none for other refusals. */
export function claimedBy({ run, now }: LockLists, ask: Ask, reason: string): string {
  const isOpen = run?.outcome === '-' && (ask.fireKind === 'gap' || run.fire === fireOf(ask, now));
  return reason === 'claimed' && isOpen ? run.attempt : '';
}

/** Remembers the fire of an ask that was granted. */
export function startRun(lock: LockLists, ask: Ask): void {
  if (ask.fireKind === '-') return;
  const fire = fireOf(ask, lock.now);
  lock.fires = [...new Set([...lock.fires, fire])].sort((a, b) => a - b).slice(-FIRES);
  lock.run = { fire, attempt: ask.attempt, started: lock.now, ended: 0, outcome: '-' };
}

export function endRun({ run, now }: LockLists, attempt: string, outcome: string): void {
  if (run?.attempt === attempt && outcome !== '-') Object.assign(run, { ended: now, outcome });
}

/** The retry time and the number of waiters ahead are exact here; the scripts give bounds. */
export function busyReply(lock: LockLists, attempt: string): (string | number)[] {
  const remaining = [...lock.holds.values()].map(({ deadline }) => deadline - lock.now);
  const retry = remaining.length > 0 ? Math.min(...remaining) : 0;
  const ahead = Math.max(
    lock.queue.findIndex((waiter) => waiter.attempt === attempt),
    0,
  );
  const holder = lock.writer && lock.liveHold(lock.writer.attempt)?.mode === 'write' ? lock.writer.holder : '';
  const written = [...lock.holds].find(([, { mode, token }]) => mode === 'write' && token > 0);
  const owner = written && (written[1].owner === '-' ? written[0] : written[1].owner);
  return ['busy', attempt, lock.now, retry, ahead, holder, owner ?? ''];
}
