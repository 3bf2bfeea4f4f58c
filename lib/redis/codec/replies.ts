import { LockKeyError, type LockMode, LockStoreError } from '../../core/lock.errors.js';
import { MAX_LEASE_MS } from '../../core/lock.options.js';
import { shortened } from '../../core/read-options.js';
import { readHolderText, waitsUntil } from '../../core/store/holder-text.js';
import {
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
  modeOf,
  permitsOf,
} from '../../core/store/lock-state.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type LostReply,
  type ReleaseReply,
  type RenewReply,
  type RenewRequest,
} from '../../core/store/lock-store.js';

type Reply = readonly string[];

/**
 * Reads the reply to an acquire.
 * @throws LockStoreError for anything else: an unreadable reply is not a grant
 */
export function readAcquireReply({ keys }: Pick<AcquireRequest, 'keys'>, reply: Reply): AcquireReply {
  const parts = new ReplyParts(keys.length === 1 ? keys[0]! : keys.join(', '), reply);
  const outcome = parts.oneOf(0, ['granted', 'busy', 'refused']);
  if (outcome === 'busy') return readBusyReply(parts);
  if (outcome === 'refused') {
    const reason = parts.oneOf(3, ['released', 'upgrade', 'claimed', 'permits']);
    if (reason === 'permits') return { outcome, reason, permits: parts.whole(4) };
    return { outcome, reason, claimedBy: parts.text(4) || undefined };
  }
  const serverTimeMs = parts.whole(2);
  const remainingMs = parts.lease(3);
  if (reply.length !== 6 + keys.length) parts.refuse();
  const fencingTokens = keys.map((_key, i) => parts.token(6 + i));
  const granted = { outcome, fencingTokens, remainingMs, serverTimeMs };
  return parts.text(5) ? { ...granted, fireMs: parts.whole(5) } : granted;
}

function readBusyReply(parts: ReplyParts): AcquireReply {
  const place = { retryMs: parts.whole(3), ahead: parts.whole(4) };
  const [holder, owner] = [parts.text(5) || undefined, parts.text(6) || undefined];
  const isFull = parts.oneOf(9, ['', '1']) === '1';
  const permits = parts.text(10) ? parts.whole(10) : undefined;
  const state = { serverTimeMs: parts.whole(2), lastToken: parts.whole(8), isFull, permits };
  return { outcome: 'busy', ...place, holder, owner, ...state };
}

/** Whether an acquire was refused as late: it was sent too long ago, or at an unknown time. */
export const isTooLate = ([outcome, , , reason]: Reply): boolean => outcome === 'refused' && reason === 'late';

/** The time of the server in the reply to an acquire, in microseconds. */
export const serverMicrosIn = (reply: Reply): number =>
  isTooLate(reply) ? wholeNumber(reply[4]) : wholeNumber(reply[2]) * 1_000;

/** Whether the server has our subscriber, according to the `busy` reply to an acquire. */
export const isListenedTo = (reply: Reply): boolean => reply[7] !== '0';

/** Reads the reply to a renewal. @throws LockStoreError for anything else */
export function readRenewReply({ key }: Pick<RenewRequest, 'key'>, reply: Reply): RenewReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, ['renewed', 'lost']);
  if (outcome === 'lost') return readLostReply(parts);
  return { outcome, remainingMs: parts.lease(3) };
}

/** Reads the reply to an adoption. @throws LockStoreError for anything else */
export function readAdoptReply(key: string, reply: Reply): AdoptReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, ['adopted', 'lost']);
  if (outcome === 'lost') return readLostReply(parts);
  // The time of the server is not needed; a reply without it does not come from the script.
  parts.whole(2);
  return { outcome, remainingMs: parts.lease(3) };
}

/** Reads the reply `lost attempt now token revoked`. */
const readLostReply = (parts: ReplyParts): LostReply => ({
  outcome: 'lost',
  lastToken: parts.whole(3),
  revoked: parts.oneOf(4, ['0', '1']) === '1',
});

/** Whether a write-back has replaced the token; false: the hold is lost. @throws LockStoreError for anything else */
export const readWriteBackReply = (key: string, reply: Reply): boolean =>
  new ReplyParts(key, reply).oneOf(0, ['written', 'lost']) === 'written';

/** Whether a forced release has ended a hold, now or before. @throws LockStoreError for anything else */
export function readForceReleaseReply(key: string, reply: Reply): boolean {
  const parts = new ReplyParts(key, reply);
  return parts.oneOf(0, ['revoked', 'again']) === 'again' || parts.whole(3) > 0;
}

/** Checks the reply to a change of the permits. @throws LockStoreError for anything else */
export function checkSetPermitsReply(key: string, reply: Reply): void {
  new ReplyParts(key, reply).oneOf(0, ['set']);
}

const RELEASE_OUTCOMES = ['released', 'again', 'cancelled', 'expired', 'revoked', 'lost', 'unknown'] as const;

/**
 * Reads the reply to a release. `maybeResent`: the connection was lost meanwhile, and the first of two copies may
 * have ended the hold; then a missing trace does not prove that the hold was lost before.
 * @throws LockStoreError for anything else
 */
export function readReleaseReply(key: string, reply: Reply, maybeResent: boolean): ReleaseReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, RELEASE_OUTCOMES);
  const mayBeOurs = maybeResent && (outcome === 'unknown' || outcome === 'expired');
  return { outcome: mayBeOurs ? 'again' : outcome, holds: parts.whole(3), lastToken: parts.whole(4) };
}

/** The number of parts of the reply before the first record, and of each record (scripts/inspect.lua). */
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
    // The rest may exceed the granted lease after the server's clock was set back; the next script clamps it.
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
      // The last granted reader decides.
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
  const readAt = new Date(now);
  return { key, mode: modeOf(holders), holders, waiters: queue.length, queue, permits, fencingToken, readAt };
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
    // A run that never began has no fire.
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

/** The greatest time that a date can have, with this number of digits. */
const MAX_DATE = 999_999_999_999_999;

/** Where each record begins. */
function* recordsIn(parts: ReplyParts, reply: readonly string[]): Generator<number> {
  if ((reply.length - FIRST) % PARTS !== 0) parts.refuse();
  for (let at = FIRST; at < reply.length; at += PARTS) {
    parts.oneOf(at, ['hold', 'waiter', 'job']);
    yield at;
  }
}

/** Text that is not one of our percent codes stays unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The whole number that a text of up to 16 digits is; NaN for any other text. Read digit by digit, since each lock reads several. */
export function wholeNumber(text = ''): number {
  if (text.length === 0 || text.length > 16) return NaN;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return NaN;
    value = 10 * value + digit;
  }
  return value;
}

/** The elements of one reply, which may be anything: something else than our script may have answered. */
class ReplyParts {
  constructor(
    private readonly key: string,
    private readonly parts: readonly string[],
    /** False: it is what is stored, which stays as it is. */
    private readonly retryable = true,
  ) {}

  /** Whatever the element is; empty if there is none. */
  text(index: number): string {
    return this.parts[index] ?? '';
  }

  /** @throws LockStoreError for anything but a whole number in this range */
  whole(index: number, min = 0, max = Number.MAX_SAFE_INTEGER): number {
    const value = wholeNumber(this.text(index));
    return value >= min && value <= max ? value : this.refuse();
  }

  /** @throws LockKeyError if the tokens of the lock have become too large: no retry helps */
  token(index: number): number {
    const text = this.text(index);
    const value = wholeNumber(text);
    if (value > 0 && value <= Number.MAX_SAFE_INTEGER) return value;
    if (!/^\d{16,}$/.test(text) || Number.isSafeInteger(Number(text))) return this.refuse();
    const { key } = this;
    throw new LockKeyError(`The fencing token of the lock "${key}" is not a safe integer: ${shortened(text)}.`, {
      key,
    });
  }

  /** The length of a lease. */
  lease(index: number): number {
    return this.whole(index, 1, MAX_LEASE_MS);
  }

  /** @throws LockStoreError for anything but one of these */
  oneOf<T extends string>(index: number, texts: readonly T[]): T {
    return texts.find((text) => text === this.parts[index]) ?? this.refuse();
  }

  /** @throws LockStoreError, always: the reply does not come from our script */
  refuse(): never {
    throw unreadableError(this.key, this.parts.join(' '), this.retryable);
  }
}

const unreadableError = (key: string, reply: string, retryable: boolean): LockStoreError =>
  new LockStoreError(
    `Redis sent a reply for the lock "${key}" that none of its scripts can send: "${shortened(reply)}". Check what answers ` +
      'at its address, and whether something else writes to its keys.',
    { key, retryable },
  );
