import { isGeneratedName } from '../core/key.js';
import { LockConfigurationError, type LockMode } from '../core/lock.errors.js';
import { checkTogether, LOCK_OPTIONS, type LockOptions, MAX_LEASE_MS } from '../core/lock.options.js';
import {
  BOOLEAN,
  checkOptions,
  CONNECTION_NAME,
  duration,
  type Kind,
  kindOf,
  ON_UNAVAILABLE,
  type OnUnavailable,
  option,
  type Option,
  type OptionTable,
} from '../core/option-checks.js';
import { refuse } from '../core/read-options.js';
import { messageOf } from '../core/reporter.js';
import { type ResultKind } from './streams/stream-kind.js';

/** The options of the decorators. All durations are whole milliseconds. */
export interface LockedOptions extends Omit<LockOptions, 'mode' | 'permits' | 'perInstance' | 'take' | 'note'> {
  /**
   * With mode `read`: the maximum number of holders at once (a counting semaphore), or a function of the arguments that
   * returns the number, called with `this` = the instance. Each call counts all readers of the key.
   * @default no limit
   */
  permits?: number | ((...args: any[]) => number);
  /**
   * With `permits`: the maximum of them in this process, or a function of the arguments that returns the number, called with
   * `this` = the instance. The other calls of the process wait locally, first in, first out, before they ask for a permit. It counts
   * the calls of this module with `perInstance`, separately for each key.
   * @default no limit
   */
  perInstance?: number | ((...args: any[]) => number);
  /**
   * A label of at most 256 bytes for operators, or a function of the arguments that returns it, called with `this` = the instance:
   * `inspect`, `list` and the errors of waiting calls show it with the holder. It is stored as it is.
   */
  note?: string | ((...args: any[]) => string);
  /**
   * With mode `read`: the number of permits that a call takes, at most `permits`, or a function of the arguments that returns the number,
   * called with `this` = the instance. Without `permits`, it counts for other calls, and where an operator sets them (`setPermits`).
   * @default 1
   */
  take?: number | ((...args: any[]) => number);
  /**
   * What a call does when the lock is busy: `wait` up to `waitMs`, or try once and `skip` (resolve to `undefined` without running),
   * `throw` a `LockBusyError`, or resolve to the result of a function of the key and the arguments. `share`: the call gets the result or
   * error of a running or waiting call of the same method with the same keys in this process, so the key must contain everything that the
   * result depends on. It waits with that call for the lock, then up to `waitMs` for the result; between processes, calls `wait`.
   * @default 'wait'; with `oncePer`: 'skip'
   */
  ifBusy?: 'wait' | 'share' | 'skip' | 'throw' | ((key: string, ...args: any[]) => unknown);
  /**
   * For scheduled jobs that fire on every instance: the method runs on exactly one of them, and on the others the call
   * resolves to `undefined`. `fire`: once per fire of the method's `@Cron`, `@Interval` or `@Timeout`, or of the cron job of
   * the SchedulerRegistry that calls it; a number: once per slot of this length in milliseconds, by the clock of Redis; a
   * function of the arguments, called with `this` = the instance: once for each Date that it returns.
   */
  oncePer?: 'fire' | number | ((...args: any[]) => Date);
  /**
   * With `oncePer`: the name of the job, the same in each build and process. Needed where the class has a generated name.
   * @default `Class.method` as written, with the class of the object
   */
  job?: string;
  /**
   * With `oncePer`: each instance waits for a random time of up to this many milliseconds before it claims the fire, so
   * the winner changes from fire to fire; 0 turns it off.
   * @default 50
   */
  spreadMs?: number;
  /**
   * With `oncePer`: when the instance that runs a fire dies, another instance runs the fire again. The others wait for it, up
   * to `waitMs`, which is two leases by default.
   * @default false
   */
  rerunOnLoss?: boolean;
  /**
   * The name of the connection to lock on.
   * @default the connection without a name
   */
  connection?: string;
  /**
   * What a call does when Redis cannot be reached: `fail` with a `LockStoreError`, `skip` (resolve to `undefined` without
   * running), or `run-unlocked`, which gives up exclusion for availability.
   * @default the module's `onUnavailable`
   */
  onUnavailable?: OnUnavailable;
}

export const PER_CALL = ['permits', 'perInstance', 'take', 'note'] as const;

const orFunction = ({ kind, default: value }: Option): Option =>
  option(
    {
      expected: `${kind.expected}, or a function of the arguments`,
      check: (given, where) => {
        if (typeof given !== 'function') kind.check(given, where);
      },
    },
    value,
  );

const { mode: _mode, ...ofLock } = LOCK_OPTIONS;

/** The options of the decorators, which set the mode themselves. A new option needs a row here, and its type and text above. */
export const LOCKED_OPTIONS = {
  ...ofLock,
  permits: orFunction(ofLock.permits),
  perInstance: orFunction(ofLock.perInstance),
  take: orFunction(ofLock.take),
  note: orFunction(ofLock.note),
  ifBusy: option(
    kindOf(
      "'wait', 'share', 'skip', 'throw' or a function",
      (value) => ['wait', 'share', 'skip', 'throw'].includes(value) || typeof value === 'function',
    ),
    'wait',
  ),
  oncePer: option(oncePerKind()),
  job: option(
    kindOf("the name of the job, such as 'Reports.noon'", (value) => typeof value === 'string' && value !== ''),
  ),
  spreadMs: option(duration({ min: 0, max: 3_600_000 }), 50),
  rerunOnLoss: option(BOOLEAN, false),
  connection: option(CONNECTION_NAME),
  onUnavailable: option(ON_UNAVAILABLE),
} satisfies OptionTable<LockedOptions>;

function oncePerKind(): Kind {
  const slot = duration({ min: 1, max: MAX_LEASE_MS }, "'fire', a function that returns a Date, or ");
  return {
    expected: slot.expected,
    check: (value, where) => {
      if (value !== 'fire' && typeof value !== 'function') slot.check(value, where);
    },
  };
}

/** What the decorator itself sets, in addition to its options. */
export interface LockedBy {
  readonly mode: LockMode;
  readonly permits?: LockedOptions['permits'];
  readonly kind: ResultKind;
  readonly where: string;
}

/**
 * Checks the options of a decorator when the class is defined, and returns a copy of them, with the mode.
 * @throws LockConfigurationError that begins with the class and the method
 */
export function checkLockedOptions(
  options: LockedOptions,
  { mode, permits, kind, where }: LockedBy,
): LockedOptions & Pick<LockOptions, 'mode'> {
  try {
    if (typeof options !== 'object' || options === null) refuse('options', options, 'an object such as { waitMs: 0 }');
    if ('mode' in options) fail('`mode` is set by the decorator: use @ReadLocked or @WriteLocked.');
    const own = checkOptions(options, LOCKED_OPTIONS, undefined, 'lock option');
    if (permits !== undefined) LOCKED_OPTIONS.permits.kind.check((own.permits = permits), 'permits');
    LOCK_OPTIONS.mode.kind.check(mode, 'mode');
    checkTogether({ ...own, mode });
    checkIfBusy(own, kind);
    checkOncePer(own, mode);
    checkJobName(own, where);
    return { ...own, mode };
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${messageOf(error)}`, { cause: error });
  }
}

function checkIfBusy(options: LockedOptions, kind: ResultKind): void {
  const { oncePer, rerunOnLoss, waitMs, maxWaiters } = options;
  const { ifBusy = oncePer === undefined ? 'wait' : 'skip' } = options;
  if (ifBusy === 'share') return checkShare(options, kind);
  if (typeof ifBusy === 'function' && kind !== 'promise') {
    fail("A function as `ifBusy` cannot answer for a method that returns a stream; use 'wait', 'skip' or 'throw'.");
  }
  const said = `\`ifBusy: ${typeof ifBusy === 'function' ? 'a function' : `'${ifBusy}'`}\``;
  if (rerunOnLoss && oncePer !== undefined && ifBusy !== 'skip') {
    fail(`With \`rerunOnLoss\`, all others wait for the run to end and are then skipped; leave ${said} out.`);
  }
  const ofWait = waitMs ? `waitMs: ${waitMs}` : maxWaiters === undefined ? undefined : `maxWaiters: ${maxWaiters}`;
  if (ifBusy !== 'wait' && ofWait && !rerunOnLoss) {
    const beside = options.ifBusy === undefined ? '`oncePer`' : said;
    fail(`\`${ofWait}\` has no effect with ${beside}, which tries once; leave it out.`);
  }
}

/** @throws LockConfigurationError for options with which there is no result to share */
function checkShare({ oncePer, waitMs }: LockedOptions, kind: ResultKind): void {
  if (kind !== 'promise') {
    fail(
      "`ifBusy: 'share'` cannot share a stream, which is read once; use 'wait', or return a promise of the whole result.",
    );
  }
  if (oncePer !== undefined) {
    fail("A job with `oncePer` runs for one call, and the others are skipped; leave `ifBusy: 'share'` out.");
  }
  if (waitMs === 0)
    fail("`waitMs: 0` leaves no time to share a result; leave it out, or use `ifBusy: 'skip'` or 'throw'.");
}

function checkOncePer(
  { oncePer, job, spreadMs, rerunOnLoss, permits, reentrant, owner }: LockedOptions,
  mode: LockMode,
): void {
  if (oncePer === undefined) {
    if (job !== undefined || spreadMs !== undefined || rerunOnLoss !== undefined) {
      fail('`job`, `spreadMs` and `rerunOnLoss` are for scheduled jobs; give them an `oncePer`, or leave them out.');
    }
    return;
  }
  if (reentrant) fail('A job that runs once per fire cannot run inside itself; leave `reentrant` out.');
  if (mode === 'read' || permits !== undefined) fail('`oncePer` lets one call run: use it with @Locked.');
  if (rerunOnLoss && owner !== undefined) {
    // The run of a fire would begin again while it continues.
    fail(
      'With `rerunOnLoss`, the others wait for the run to end, and calls with the same `owner` do not; leave one out.',
    );
  }
}

/** If instances use different names for a job, each runs its fires; two jobs with one name share them. */
function checkJobName({ oncePer, job }: LockedOptions, where: string): void {
  if (oncePer === undefined || job !== undefined) return;
  const name = where.slice(0, where.indexOf('.'));
  if (!isGeneratedName(name)) return;
  fail(
    'Expected a job to have a name that is the same in each build and process, got ' +
      `${name === '' ? 'a class without a name' : `the class "${name}"`}, as minifiers and Nest's mixin() name classes. ` +
      "Name it: `job: 'Reports.noon'`.",
  );
}

function fail(text: string): never {
  throw new LockConfigurationError(text);
}
