import { type LockMode } from '../../core/lock.errors.js';
import { readHolderText, waitsUntil } from '../../core/store/holder-text.js';
import {
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
  modeOf,
  permitsOf,
} from '../../core/store/lock-state.js';
import { ReplyParts } from './reply-parts.js';

/** How many parts of the reply there are before the first record, and in each record (scripts/inspect.lua). */
const [FIRST, PARTS] = [3, 12];

/** Reads the reply of the inspect script. @throws LockStoreError for anything else */
export function readLockState(key: string, reply: readonly string[]): LockState {
  const parts = new ReplyParts(key, reply, false);
  const [now, fencingToken] = [parts.whole(0), parts.whole(1)];
  const holders: LockHolder[] = [];
  const places: { readonly sequence: number; readonly waiter: Omit<LockWaiter, 'place'> }[] = [];
  let last = { token: 0, permits: 0 };
  for (const at of recordsIn(parts, reply)) {
    if (parts.text(at) === 'job') continue;
    const [deadline, span, token] = [2, 3, 4].map((i) => parts.whole(at + i));
    // More may be left than was granted when the server's clock was set back; the next script clamps it.
    const remainingMs = Math.max(0, Math.min(deadline! - now, span!));
    if (remainingMs === 0) continue;
    const [attempt, owner, text] = [parts.text(at + 1), parts.text(at + 9), parts.text(at + 11)];
    const mode: LockMode = parts.oneOf(at + 5, ['w', 'r']) === 'w' ? 'write' : 'read';
    const one = {
      owner: owner === '-' ? attempt : decoded(owner),
      attempt,
      mode,
      take: parts.whole(at + 6),
      ...readHolderText(text),
      since: new Date(parts.whole(at + 8)),
    };
    if (parts.text(at) === 'waiter') {
      places.push({ sequence: parts.whole(at + 10), waiter: { ...one, until: waitsUntil(text, one.since.getTime()) } });
    } else {
      holders.push({ ...one, remainingMs, fencingToken: token! });
      // Of the readers, the one that was granted last has the say.
      if (one.mode === 'read' && token! >= last.token) last = { token: token!, permits: parts.whole(at + 7) };
    }
  }
  // A hash has no order.
  holders.sort((a, b) => a.since.getTime() - b.since.getTime() || a.fencingToken - b.fencingToken);
  const queue = places
    .sort((a, b) => a.sequence - b.sequence)
    .map(({ waiter }, i): LockWaiter => ({ ...waiter, place: i + 1 }));
  const isSet = parts.text(2) !== '';
  const permits = permitsOf(holders, isSet ? parts.whole(2) : last.permits, isSet);
  return { key, mode: modeOf(holders), holders, waiters: queue.length, queue, permits, fencingToken };
}

/** Reads the last run of each job from the same reply. */
export function readRuns(key: string, reply: readonly string[]): readonly LastRun[] {
  const parts = new ReplyParts(key, reply, false);
  const now = parts.whole(0);
  const records = [...recordsIn(parts, reply)];
  const isHeld = (attempt: string): boolean =>
    records.some(
      (at) =>
        parts.text(at) === 'hold' &&
        parts.text(at + 1) === attempt &&
        parts.whole(at + 2) > now &&
        parts.whole(at + 4) > 0,
    );
  return records.flatMap((at) => {
    const [kind, job, fire, attempt, started, ended, outcome, instance] = reply.slice(at, at + 8);
    // A run that never began leaves no fire.
    if (kind !== 'job' || outcome === 'void') return [];
    for (const time of [2, 4, 5]) parts.whole(at + time, 0, MAX_DATE);
    return {
      job: decoded(job!),
      fire: new Date(Number(fire)),
      instance: instance!,
      attempt: attempt!,
      started: new Date(Number(started)),
      ended: outcome === '-' ? null : new Date(Number(ended)),
      outcome: outcome === 'done' || outcome === 'failed' ? outcome : isHeld(attempt!) ? 'running' : 'lost',
    } as const;
  });
}

/** The greatest time that a date can have, with as many digits. */
const MAX_DATE = 999_999_999_999_999;

/** Where each record begins. */
function* recordsIn(parts: ReplyParts, reply: readonly string[]): Generator<number> {
  if ((reply.length - FIRST) % PARTS !== 0) parts.refuse();
  for (let at = FIRST; at < reply.length; at += PARTS) {
    parts.oneOf(at, ['hold', 'waiter', 'job']);
    yield at;
  }
}

/** What is no percent code that we wrote stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
