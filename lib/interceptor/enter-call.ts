import { type Locker } from '../core/acquire/locker.js';
import { type Key } from '../core/call-arguments.js';
import { jobName } from '../core/key.js';
import {
  LockBusyError,
  LockClaimedError,
  LockConfigurationError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../core/lock.errors.js';
import { type LockEventMap } from '../core/lock.events.js';
import { LOCK_OPTIONS, type LockOptions } from '../core/lock.options.js';
import { type OnUnavailable, checkFits } from '../core/option-checks.js';
import { systemRandomness } from '../core/randomness.js';
import { UnlockedHandle } from '../core/reentry/unlocked-run.js';
import { type FireClaim } from '../core/store/fires.js';
import { type RedisLockService } from '../redis-lock.service.js';
import { type FireFinder, type FireSpec, fireOfDate, rememberMs } from '../schedule/fire-finder.js';
import { scheduledMethod } from '../schedule/scheduler.js';
import { jobOf, type LockedCall } from './locked-call.js';
import { LOCKED_OPTIONS } from './locked.options.js';

/** The parts of the module that a locked call needs to enter. */
export interface EntryHost {
  readonly locks: RedisLockService;
  readonly locker: Locker;
  readonly fires: FireFinder;
  readonly leaseMs: number;
  readonly onUnavailable: OnUnavailable;
}

export interface Caller {
  readonly self: unknown;
  readonly args: readonly unknown[];
  readonly key: Key;
  /** The call claims no fire, and is not skipped. */
  readonly isByHand?: true;
}

/** How a call continues that did not get its lock, according to its options: without the lock, or not at all. */
export type Refused =
  | { readonly kind: 'unlocked'; readonly run: UnlockedHandle; readonly cause: LockStoreError }
  | { readonly kind: 'skipped'; readonly answer: unknown };

/**
 * The options of a call whose options depend on its arguments. A fire that waits for the end of a run waits for at most two leases by
 * default.
 * @throws what the functions among the options throw; LockConfigurationError for their results
 */
export function optionsOf({ leaseMs }: EntryHost, call: LockedCall, { self, args, isByHand }: Caller): LockOptions {
  const { where, lock, perCall, options } = call;
  const own: LockOptions = { ...lock };
  if (options.rerunOnLoss && !isByHand) own.waitMs = options.waitMs ?? 2 * (lock.leaseMs ?? leaseMs);
  const results = perCall.map((name): unknown => (options[name] as Function).apply(self, [...args]));
  try {
    perCall.forEach((name, i) => LOCK_OPTIONS[name].kind.check(results[i], name));
    Object.assign(own, Object.fromEntries(perCall.map((name, i) => [name, results[i]])));
    checkFits(own);
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${(error as Error).message}`, { cause: error });
  }
  return own;
}

/**
 * Returns the fire that a call of a job claims, after a random delay. The fire is found before the delay, which may reach into the
 * next fire.
 */
export async function claimOf(host: EntryHost, call: LockedCall, { self, args }: Caller): Promise<FireClaim> {
  const { oncePer, rerunOnLoss = false } = call.options;
  const common = { job: jobName(jobOf(call, self)), calledAt: host.locker.clock.now(), rerunOnLoss };
  const spec = await fireOf(host.fires, call, oncePer!, self, args);
  await spread(call, host.locker);
  return { ...spec, ...common };
}

/**
 * Returns how a call continues that did not get its lock.
 * @throws the error, unless the options handle it
 */
export function notEntered(host: EntryHost, call: LockedCall, error: unknown, caller: Caller, note?: string): Refused {
  const { args, key, isByHand = false } = caller;
  const keys = typeof key === 'string' ? [key] : key;
  const text = keys.join(', ');
  const { where, template, options } = call;
  const { oncePer, mode = 'write', rerunOnLoss, onUnavailable = host.onUnavailable } = options;
  const isJob = oncePer !== undefined;
  const { ifBusy = isJob ? 'skip' : 'wait' } = options;
  const skip = (reason: LockEventMap['skipped']['reason'], answer?: () => unknown): Refused => {
    if (isByHand) throw error;
    const event = { where, template, key: text, keys, mode, note: note || undefined };
    host.locks.events.emit('skipped', () => ({ ...event, reason }));
    return { kind: 'skipped', answer: answer?.() };
  };
  if (error instanceof LockClaimedError) return skip('claimed');
  if (isJob && error instanceof LockShutdownError) return skip('shutdown');
  if (isJob && rerunOnLoss && error instanceof LockWaitTimeoutError) return skip('busy');
  if (error instanceof LockBusyError) {
    if (ifBusy === 'skip') return skip('busy');
    if (typeof ifBusy === 'function') return skip('busy', () => ifBusy(text, ...args));
  }
  // Wrong credentials are not an outage: such a call fails, whatever its options.
  if (error instanceof LockStoreError && error.retryable) {
    if (onUnavailable === 'skip') return skip('unavailable');
    if (onUnavailable === 'run-unlocked')
      return { kind: 'unlocked', run: new UnlockedHandle(keys, mode), cause: error };
  }
  throw error;
}

/**
 * Reads a job of the scheduler twice. The scheduler registers a job in the turn in which it creates it; the job may tick before
 * that, at a deadline that it has just missed, or with `runOnInit` of cron.
 */
async function fireOf(
  fires: FireFinder,
  call: LockedCall,
  oncePer: NonNullable<LockedCall['options']['oncePer']>,
  self: unknown,
  args: readonly unknown[],
): Promise<FireSpec> {
  if (typeof oncePer === 'function') return fireOfDate(oncePer.apply(self, [...args]), call.where);
  if (oncePer !== 'fire') return { kind: 'slot', ms: oncePer, rememberMs: rememberMs(oncePer) };
  const method = scheduledMethod(self, call.name) ?? call.method;
  try {
    return fires.claimOf(method, call.where);
  } catch {
    await Promise.resolve();
    return fires.claimOf(method, call.where);
  }
}

/** The first claim wins; without a delay, the fastest instance would always win. */
async function spread(
  { options: { spreadMs = LOCKED_OPTIONS.spreadMs.default! } }: LockedCall,
  locker: Locker,
): Promise<void> {
  if (spreadMs === 0) return;
  await new Promise<void>((resume) => {
    const delay = {
      close: () => {
        cancel();
        locker.closing.delete(delay);
        resume();
      },
    };
    const cancel = locker.clock.setTimer(delay.close, systemRandomness.fraction() * spreadMs);
    locker.closeWithModule(delay);
  });
}
