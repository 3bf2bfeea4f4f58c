import { type Locker } from '../acquire/locker.js';
import { eventOf, forKeys, type LockRequest, waitedMsOf } from '../acquire/request.js';
import { nestedUpgradeError, notReentrantError, unawaitedCallError, uncountedPermitError } from '../error-texts.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { type Hold } from '../hold/hold.js';
import { NestedHold } from '../hold/nested-hold.js';
import { localLimitError, LocalWait } from '../local-wait.js';
import { type LockMode } from '../lock.errors.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { findCurrentHold, findUnendedHold, isStackDeep } from './context.js';
import { type SlotOutcome } from './local-slot.js';

/**
 * Enters the lock of all keys. Keys that this chain of calls holds need no command; the others are acquired. The plain cases
 * have one key: if the chain holds it and no nested call uses it, the call enters at once; if the chain does not hold it,
 * the call acquires it. All other calls go through `enter`.
 * @throws (also at once) LockReentryError for a call that would wait for itself (an upgrade, or a job inside itself), for a permit
 *   that would not be counted, and for `reentrant: false`
 */
export function enterLock(locker: Locker, request: LockRequest): Hold | Promise<Hold> {
  const { keys } = request;
  if (keys.length === 1) {
    const outer = findOuterHold(locker, keys[0]!, request);
    if (!outer) return locker.acquire(request);
    const nested = !isStackDeep() && enterIdleSlot(locker, outer, request);
    if (nested) return nested;
  }
  return locker.awaited.keepAlive(enter(locker, request));
}

/** Enters under `outer` if no sibling is in the way. Returns null otherwise. */
function enterIdleSlot(locker: Locker, outer: Hold, request: LockRequest): NestedHold | null {
  const { keys, options } = request;
  options.signal?.throwIfAborted();
  const nested = new NestedHold(outer, keys, options);
  if (!nested.tryEnter(keys[0]!)) return null;
  const isHeard = tellReentered(locker, nested, request);
  // A listener may have lost the outer hold.
  if (!isHeard || !outer.lost) return nested;
  void nested.finish(undefined);
  throw outer.lost;
}

/** Returns whether the event has listeners. */
function tellReentered(locker: Locker, hold: NestedHold, request: LockRequest): boolean {
  return locker.events.emit('reentered', () => {
    const { key, keys, mode } = hold;
    return { ...eventOf(request), key, keys, mode, waitedMs: waitedMsOf(request, locker.clock.now()) };
  });
}

async function enter(locker: Locker, request: LockRequest): Promise<Hold> {
  const { keys } = request;
  for (;;) {
    const nested = findOuterHolds(locker, request);
    if (nested.length === 0) return locker.acquire(request);
    const missing = keys.filter((key) => !nested.some((entry) => entry.keys.includes(key)));
    const parts = await enterNested(locker, nested, request);
    // An outer hold was released while the call waited for its turn, so it can no longer be shared: start over.
    if (!parts) continue;
    const part = { isGranted: false };
    try {
      if (missing.length > 0) parts.push(await locker.acquire(forKeys(request, missing, part)));
      // An outer lock may be lost before its timer runs.
      throwIfLost(parts);
    } catch (error) {
      for (const hold of parts) void hold.release();
      throw error;
    }
    part.isGranted = true;
    return parts.length === 1 ? parts[0]! : new CompositeHold(keys, parts);
  }
}

/**
 * With `reentrant: false`, refuses a key that this chain of calls holds.
 * @throws LockReentryError
 */
export function refuseReentry(locker: Locker, { keys, options: { mode, reentrant } }: LockRequest): void {
  if (reentrant) return;
  for (const key of keys) {
    const outer = findCurrentHold(key, locker.holds);
    if (outer) throw notReentrantError({ key, mode }, outer.mode);
  }
}

/** The keys that one outer hold of this chain of calls has. */
interface NestedKeys {
  readonly outer: Hold;
  readonly keys: string[];
}

/** Finds the outer holds of those keys that this chain of calls holds. */
function findOuterHolds(locker: Locker, request: LockRequest): NestedKeys[] {
  const nested: NestedKeys[] = [];
  for (const key of request.keys) {
    const outer = findOuterHold(locker, key, request);
    if (!outer) continue;
    const known = nested.find((entry) => entry.outer === outer);
    if (known) known.keys.push(key);
    else nested.push({ outer, keys: [key] });
  }
  return nested;
}

/**
 * Finds the hold of `key` that this chain of calls has.
 * @throws LockLostError; LockReentryError for a call that would wait for itself or must not be nested
 */
function findOuterHold(locker: Locker, key: string, { options, claim }: LockRequest): Hold | undefined {
  const outer = findCurrentHold(key, locker.holds);
  if (outer?.lost) throw outer.lost;
  refuseUnawaited(key, locker, options.mode, outer);
  if (!outer) return undefined;
  refuseUpgrade(key, outer.mode, options.mode);
  refuseUncountedPermit(key, outer, options);
  if (!options.reentrant || claim) throw notReentrantError({ key, mode: options.mode }, outer.mode);
  return outer;
}

/** Waits for a turn under each outer hold; resolves to null if one of them is released meanwhile. */
async function enterNested(
  locker: Locker,
  nested: readonly NestedKeys[],
  request: LockRequest,
): Promise<Hold[] | null> {
  const { options } = request;
  const locks = nested.map(({ outer, keys }) => new NestedHold(outer, keys, options));
  const turns = nested.flatMap(({ outer, keys }, i) => keys.map((key) => ({ outer, key, lock: locks[i]! })));
  // In the order of the keys, so that two siblings cannot block each other.
  turns.sort((a, b) => (a.key < b.key ? -1 : 1));
  const entered: Turn[] = [];
  const leave = (): void => {
    for (const { lock, key } of entered) lock.leave(key);
  };
  try {
    for (const turn of turns) {
      if ((await waitForTurn(locker, turn, request)) === 'closed') {
        leave();
        return null;
      }
      entered.push(turn);
      // The outer lock may have been downgraded while we waited.
      refuseUpgrade(turn.key, turn.outer.mode, options.mode);
    }
  } catch (error) {
    leave();
    throw error;
  }
  for (const lock of locks) tellReentered(locker, lock, request);
  return locks;
}

/** The turn of a nested call in the slot of one key. */
interface Turn {
  readonly outer: Hold;
  readonly key: string;
  readonly lock: NestedHold;
}

/** Waits until `waitMs` is over, `signal` is aborted or the outer lock is lost. */
function waitForTurn(locker: Locker, { outer, key, lock }: Turn, request: LockRequest): Promise<SlotOutcome> {
  const { startedAt, options } = request;
  const { waitMs, signal, mode } = options;
  signal?.throwIfAborted();
  // If its caller has released it, this call acquires the key itself.
  if (!outer.isReleased && outer.lost) throw outer.lost;
  const stops: (() => void)[] = [];
  const wait = new LocalWait<SlotOutcome>(locker.timers, signal, () => stops.forEach((stop) => stop()));
  stops.push(lock.enter(key, (outcome) => wait.succeed(outcome)));
  const onLimit = (): void => {
    const event = { ...eventOf(request), key, keys: [key], mode };
    const holder = 'a nested call of the same chain of calls';
    wait.fail(localLimitError(locker, event, { waitMs, startedAt }, holder));
  };
  if (wait.isOver) return wait.promise;
  if (waitMs === 0) onLimit();
  else {
    stops.push(outer.onLost((error) => wait.fail(error)));
    wait.limitBy(startedAt + waitMs, onLimit);
  }
  return wait.promise;
}

function refuseUpgrade(key: string, held: LockMode, mode: LockMode): void {
  if (held === 'read' && mode === 'write') throw nestedUpgradeError(key, held);
}

/** Refuses a permit inside a hold that may be shared by more calls than there are permits: the store would not count it. */
function refuseUncountedPermit(key: string, outer: Hold, { mode, permits }: ResolvedLockOptions): void {
  const maxHolders = outer.maxHoldersOf(key);
  if (permits > 0 && maxHolders > permits) throw uncountedPermitError({ key, mode, permits }, outer.mode, maxHolders);
}

/**
 * Refuses to wait for a released hold that only this chain of calls keeps from ending. A call that was not awaited may be
 * inside, under another key of that hold: it would wait for its own end.
 */
function refuseUnawaited(key: string, locker: Locker, mode: LockMode, outer: Hold | undefined): void {
  const kept = findUnendedHold(key, locker.holds, outer);
  if (kept && (kept.mode === 'write' || mode === 'write')) throw unawaitedCallError({ key, mode });
}
