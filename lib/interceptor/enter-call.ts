import { withEither } from '../core/abort-listener.js';
import { type Locker } from '../core/acquire/locker.js';
import { type Clock } from '../core/clock.js';
import { type Hold } from '../core/hold/hold.js';
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
import { type LockOptions } from '../core/lock.options.js';
import { type OnUnavailable, checkFits } from '../core/option-checks.js';
import { UnlockedHandle } from '../core/reentry/unlocked-run.js';
import { type FireClaim } from '../core/store/fires.js';
import { type Key } from '../core/call-arguments.js';
import { type RedisLockService } from '../redis-lock.service.js';
import { type FireFinder, type FireSpec, fireOfDate, rememberMs } from '../schedule/fire-finder.js';
import { scheduledMethod } from '../schedule/schedule-metadata.js';
import { jobOf, type LockedCall, lockOptionsOf } from './locked-call.js';
import { PER_CALL, PER_CALL_NAMES, type PerCall } from './locked.options.js';
import { systemRandomness } from '../core/randomness.js';

/** How a locked call goes on: under its lock, without it (if its options say so), or not at all. */
export type Entered =
  | { readonly kind: 'locked'; readonly lock: Hold }
  | { readonly kind: 'unlocked'; readonly run: UnlockedHandle; readonly cause: LockStoreError }
  | { readonly kind: 'skipped'; readonly answer: unknown };

/** The parts of the module that a locked call is entered with. */
export interface EntryHost {
  readonly locks: RedisLockService;
  readonly locker: Pick<Locker, 'awaited' | 'closing' | 'closeWithModule'>;
  readonly fires: FireFinder;
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly onUnavailable: OnUnavailable;
}

/** The call that the functions among the options are called for. */
interface Caller {
  readonly self: unknown;
  readonly args: readonly unknown[];
  readonly key: Key;
}

/** The call that was refused its lock; `isClaim`: it is a job that claims a fire. */
interface Refused extends Pick<Caller, 'args' | 'key'> {
  readonly note?: string | undefined;
  readonly isClaim?: boolean;
}

const DEFAULT_SPREAD_MS = 50;

/**
 * Enters the lock of a locked call; follows its options if the lock is busy or Redis cannot be reached.
 * @throws (also at once) what the key function throws, and the errors of the lock
 */
export function enterCall(
  host: EntryHost,
  call: LockedCall,
  self: unknown,
  args: readonly unknown[],
  signal?: AbortSignal,
  key: Key = call.keyOf(self, args),
): Promise<Entered> {
  return host.locker.awaited.keepAlive(enterFully(host, call, { self, args, key }, signal));
}

async function enterFully(host: EntryHost, call: LockedCall, caller: Caller, signal?: AbortSignal): Promise<Entered> {
  const { oncePer } = call.options;
  const claim = oncePer === undefined ? undefined : await claimOf(host, call, oncePer, caller);
  if (claim) await spread(call, host);
  const options = { ...optionsOf(host, call), ...resultsOf(call, caller) };
  const { where, template } = call;
  const entry = { label: { where, template }, claim };
  const enter = async (either?: AbortSignal) => host.locks.enter(caller.key, { ...options, signal: either }, entry);
  return settled(
    host,
    call,
    { ...caller, note: options.note, isClaim: claim !== undefined },
    withEither(options.signal, signal, enter),
  );
}

const settled = (host: EntryHost, call: LockedCall, refused: Refused, entering: Promise<Hold>): Promise<Entered> =>
  entering.then(
    (lock) => ({ kind: 'locked', lock }),
    (error: unknown) => notEntered(host, call, error, refused),
  );

/**
 * How a call goes on that was refused its lock, as its options say.
 * @throws the error, if they say nothing
 */
export function notEntered(
  host: EntryHost,
  call: LockedCall,
  error: unknown,
  { key, args, note, isClaim = false }: Refused,
): Entered {
  const keys = typeof key === 'string' ? [key] : key;
  const text = keys.join(', ');
  const skip = (reason: LockEventMap['skipped']['reason'], answer?: () => unknown): Entered => {
    const { where, template, options } = call;
    const event = { where, template, key: text, keys, mode: options.mode ?? 'write', note: note || undefined };
    host.locks.events.emit('skipped', () => ({ ...event, reason }));
    return { kind: 'skipped', answer: answer?.() };
  };
  const { ifBusy = isClaim ? 'skip' : 'wait', rerunOnLoss, onUnavailable = host.onUnavailable } = call.options;
  if (error instanceof LockClaimedError) return skip('claimed');
  if (isClaim && error instanceof LockShutdownError) return skip('shutdown');
  if (isClaim && rerunOnLoss && error instanceof LockWaitTimeoutError) return skip('busy');
  if (error instanceof LockBusyError) {
    if (ifBusy === 'skip') return skip('busy');
    if (typeof ifBusy === 'function') return skip('busy', () => ifBusy(text, ...args));
  }
  // Wrong credentials are not an outage: such a call fails, whatever its options say.
  if (error instanceof LockStoreError && error.retryable) {
    if (onUnavailable === 'skip') return skip('unavailable');
    if (onUnavailable === 'run-unlocked') {
      const run = new UnlockedHandle(typeof key === 'string' ? [key] : key, call.options.mode ?? 'write');
      return { kind: 'unlocked', run, cause: error };
    }
  }
  throw error;
}

/** The options of the acquisition. Whoever waits for the end of a run waits for two leases, unless it says otherwise. */
function optionsOf(host: EntryHost, call: LockedCall): LockOptions {
  const options = lockOptionsOf(call.options);
  if (!call.options.rerunOnLoss) return options;
  return { ...options, waitMs: call.options.waitMs ?? 2 * (options.leaseMs ?? host.leaseMs) };
}

/** The options that may be functions of the arguments, with the results of those. */
function resultsOf({ where, options }: LockedCall, { self, args }: Caller): Pick<LockOptions, PerCall> {
  const results: Pick<LockOptions, PerCall> = {};
  const given = PER_CALL_NAMES.filter((name) => options[name] !== undefined);
  const values = given.map((name): unknown => {
    const option: unknown = options[name];
    return typeof option === 'function' ? option.apply(self, [...args]) : option;
  });
  try {
    given.forEach((name, i) => PER_CALL[name].check(values[i], name));
    Object.assign(results, Object.fromEntries(given.map((name, i) => [name, values[i]])));
    checkFits(results);
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${(error as Error).message}`, { cause: error });
  }
  return results;
}

/** The fire that the call is for. It is found before the random delay, which may reach into the next fire. */
async function claimOf(
  { fires, clock }: EntryHost,
  call: LockedCall,
  oncePer: NonNullable<LockedCall['options']['oncePer']>,
  { self, args }: Caller,
): Promise<FireClaim> {
  const { rerunOnLoss = false } = call.options;
  const common = { job: jobName(jobOf(call, self)), calledAt: clock.now(), rerunOnLoss };
  if (oncePer === 'fire') {
    const method = scheduledMethod(self, call.name) ?? call.method;
    return { ...(await fireOf(fires, method, call.where)), ...common };
  }
  if (typeof oncePer === 'function') return { ...fireOfDate(oncePer.apply(self, [...args]), call.where), ...common };
  return { ...common, kind: 'slot', ms: oncePer, rememberMs: rememberMs(oncePer) };
}

/**
 * Looks twice for the job. The scheduler registers a job in the same turn in which it creates it, but the job may tick
 * before that: at a deadline that it has just missed, or with `runOnInit` of cron.
 */
async function fireOf(fires: FireFinder, method: Function, where: string): Promise<FireSpec> {
  try {
    return fires.claimOf(method, where);
  } catch {
    await Promise.resolve();
    return fires.claimOf(method, where);
  }
}

/** The first claim wins, and without a delay the fastest instance would always be first. */
async function spread({ options }: LockedCall, { clock, locker }: EntryHost): Promise<void> {
  const spreadMs = options.spreadMs ?? DEFAULT_SPREAD_MS;
  if (spreadMs === 0) return;
  await new Promise<void>((resume) => {
    const delay = {
      close: () => {
        cancel();
        locker.closing.delete(delay);
        resume();
      },
    };
    const cancel = clock.setTimer(delay.close, systemRandomness.fraction() * spreadMs);
    locker.closeWithModule(delay);
  });
}
