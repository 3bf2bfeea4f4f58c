import { onAbort } from '../abort-listener.js';
import { busyError, waitTimeoutError } from '../error-texts.js';
import { waitedMsOf } from '../acquire/request.js';
import { type Hold } from '../hold/hold.js';
import { enterBeside } from './iteration.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { type SlotOutcome } from './local-slot.js';
import { heldInContext, keptByChain } from './context.js';
import { type LockLabel } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type FireClaim } from '../store/lock-store.js';
import { type LockError, type LockMode, LockReentryError } from '../lock.errors.js';
import { type Locker } from '../acquire/locker.js';
import { NestedHold } from '../hold/nested-hold.js';

interface Nested {
  readonly outer: Hold;
  readonly keys: string[];
}

/**
 * Enters the lock of all keys: those that this chain of calls holds without a command, the others by acquiring them.
 * @throws LockReentryError at once for what would wait for itself (an upgrade, a job inside itself, or the body of a
 *   loop over an iteration that holds the lock), for a permit that would not be counted, and for `reentrant: false`
 */
export async function enterLock(
  locker: Locker,
  keys: readonly string[],
  options: ResolvedLockOptions,
  label: LockLabel,
  claim?: FireClaim,
): Promise<Hold> {
  const wanted = locker.checkKeys(keys);
  return enterBeside(locker, wanted, options, (signal) => enter(locker, wanted, { ...options, signal }, label, claim));
}

async function enter(
  locker: Locker,
  wanted: readonly string[],
  options: ResolvedLockOptions,
  label: LockLabel,
  claim: FireClaim | undefined,
): Promise<Hold> {
  const startedAt = locker.clock.now();
  for (;;) {
    const nested = heldOuter(locker, wanted, { ...options, reentrant: options.reentrant && !claim });
    if (nested.length === 0) return locker.acquire(wanted, options, label, claim, startedAt);
    const missing = wanted.filter((key) => !nested.some((entry) => entry.keys.includes(key)));
    const parts = await enterAll(locker, nested, options, { label, startedAt });
    // A hold ended while we waited under it: then it is not ours any more, and there may be another way in.
    if (!parts) continue;
    try {
      if (missing.length > 0) parts.push(await locker.acquire(missing, options, label, undefined, startedAt));
      // Also while it waited for its turn: the timer that would have told may not have run yet.
      throwIfLost(parts);
    } catch (error) {
      for (const part of parts) void part.release();
      throw error;
    }
    return parts.length === 1 ? parts[0]! : new CompositeHold(wanted, parts);
  }
}

/**
 * Refuses to acquire, with `reentrant: false`, what this chain of calls holds.
 * @throws LockReentryError
 */
export function refuseNested(locker: Locker, keys: readonly string[], { mode, reentrant }: ResolvedLockOptions): void {
  if (reentrant) return;
  for (const key of keys) {
    const outer = heldInContext(key, locker);
    if (outer) throw notReentrantError(key, outer.mode, mode);
  }
}

/** The outer holds of these keys; refuses what could only wait for itself. */
function heldOuter(locker: Locker, keys: readonly string[], options: ResolvedLockOptions): Nested[] {
  const nested: Nested[] = [];
  for (const key of keys) {
    const outer = heldInContext(key, locker);
    if (outer?.lost) throw outer.lost;
    refuseLeftover(key, locker, options.mode, outer);
    if (!outer) continue;
    refuseUpgrade(key, outer.mode, options.mode);
    refuseUncounted(key, outer, options);
    if (!options.reentrant) throw notReentrantError(key, outer.mode, options.mode);
    const known = nested.find((entry) => entry.outer === outer);
    if (known) known.keys.push(key);
    else nested.push({ outer, keys: [key] });
  }
  return nested;
}

/** Enters one after the other, in the order of the keys, so that two siblings cannot block each other; null: not all. */
async function enterAll(
  locker: Locker,
  nested: readonly Nested[],
  options: ResolvedLockOptions,
  call: { readonly label: LockLabel; readonly startedAt: number },
): Promise<Hold[] | null> {
  const { mode } = options;
  const locks = nested.map(({ outer, keys }) => new NestedHold(outer, keys, options));
  const steps = nested.flatMap(({ outer, keys }, i) => keys.map((key) => ({ outer, key, lock: locks[i]! })));
  steps.sort((a, b) => (a.key < b.key ? -1 : 1));
  const entered: Step[] = [];
  const leave = (): void => {
    for (const { lock, key } of entered) lock.leave(key);
    for (const { outer } of nested) outer.letGo();
  };
  for (const { outer } of nested) outer.retain();
  try {
    for (const step of steps) {
      if ((await enterSlot(locker, step, options, call.startedAt, call.label)) === 'closed') {
        leave();
        return null;
      }
      entered.push(step);
      // It may have been downgraded while we waited for another one.
      refuseUpgrade(step.key, step.outer.mode, mode);
    }
  } catch (error) {
    leave();
    throw error;
  }
  for (const { key } of locks) {
    locker.events.emit('reentered', () => ({
      ...call.label,
      key,
      mode,
      waitedMs: waitedMsOf(call, locker.clock.now()),
    }));
  }
  return locks;
}

/** One place that a nested call takes, under one of the holds. */
interface Step {
  readonly outer: Hold;
  readonly key: string;
  readonly lock: NestedHold;
}

/** Waits for its turn under the hold, within the limits of any other acquisition. */
function enterSlot(
  locker: Locker,
  { outer, key, lock }: Step,
  { mode, waitMs, signal }: ResolvedLockOptions,
  startedAt: number,
  label: LockLabel,
): Promise<SlotOutcome> {
  return new Promise((resolve, reject) => {
    let inside = false;
    let cleanUp = (): void => undefined;
    const settle = (outcome: SlotOutcome): void => {
      inside = true;
      cleanUp();
      resolve(outcome);
    };
    signal?.throwIfAborted();
    const leaveQueue = lock.enter(key, settle);
    if (inside) return;
    const giveUp = (error: unknown): void => {
      leaveQueue();
      cleanUp();
      reject(error);
    };
    const onLimit = (): void => giveUp(limitError(locker, { key, mode, waitMs, startedAt, label }));
    if (waitMs === 0) return onLimit();
    const limit = locker.timers.schedule(startedAt + waitMs, onLimit);
    const stops = [outer.onLost(giveUp), signal && onAbort(signal, () => giveUp(signal.reason))];
    cleanUp = () => {
      limit.cancel();
      for (const stop of stops) stop?.();
    };
  });
}

interface NestedWait {
  readonly key: string;
  readonly mode: LockMode;
  readonly waitMs: number;
  readonly startedAt: number;
  readonly label: LockLabel;
}

function limitError(locker: Locker, { key, mode, waitMs, startedAt, label }: NestedWait): LockError {
  const holder = 'a nested call of the same chain of calls';
  if (waitMs === 0) return busyError({ key, mode }, { holder });
  const waited = waitedMsOf({ startedAt }, locker.clock.now());
  locker.events.emit('timedOut', () => ({ ...label, key, mode, waitedMs: waited, holder }));
  return waitTimeoutError({ key, mode }, waited, { holder, ahead: 0 });
}

function refuseUpgrade(key: string, held: LockMode, mode: LockMode): void {
  if (held === 'write' || mode === 'read') return;
  const advice =
    'an upgrade would wait for itself, and for every other reader that tries the same. Write from the start';
  throw reentryError(key, held, mode, advice);
}

/** One permit under a hold that more calls share than there are permits would be one more: the store has not counted it. */
function refuseUncounted(key: string, outer: Hold, { mode, permits }: ResolvedLockOptions): void {
  const limit = outer.limitOf(key);
  if (permits === 0 || limit <= permits) return;
  const shared = limit === Infinity ? 'any number of readers' : `up to ${limit}`;
  const advice = `at most ${permits} are to be inside, and ${shared} may be there with such a hold. Take the permit from the start`;
  throw reentryError(key, outer.mode, mode, advice);
}

/** Work that nobody awaited keeps the hold of several keys of which it entered one: it would wait for its own end. */
function refuseLeftover(key: string, locker: Locker, mode: LockMode, outer: Hold | undefined): void {
  const kept = keptByChain(key, locker, outer);
  if (!kept || (kept.mode === 'read' && mode === 'read')) return;
  const text = `The lock "${key}" is acquired for ${mode} inside a call that nobody awaited, and that keeps it`;
  throw new LockReentryError(`${text} from ending. Await nested calls before the outer one returns.`, { key, mode });
}

const notReentrantError = (key: string, held: LockMode, mode: LockMode): LockReentryError =>
  reentryError(key, held, mode, 'and `reentrant: false` forbids that. Call the inner work without a lock of its own');

function reentryError(key: string, held: LockMode, mode: LockMode, advice: string): LockReentryError {
  const text = `The lock "${key}" is acquired for ${mode} inside a call that holds it for ${held}: ${advice}, or release`;
  return new LockReentryError(`${text} the outer lock first.`, { key, mode });
}
