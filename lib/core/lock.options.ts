import { LockConfigurationError, type LockMode } from './lock.errors.js';
import { BOOLEAN, checkFits, checkOptions, duration, NOTE, oneOf, option, type OptionTable } from './option-checks.js';
import { OWNER, PERMITS, SIGNAL, whole } from './option-checks.js';
import { refuse } from './read-options.js';

/** The options of one acquisition. All durations are whole milliseconds. */
export interface LockOptions {
  /**
   * `write` excludes all others, `read` shares with other readers. One key is one lock: write excludes read of the same key.
   * @default 'write'
   */
  mode?: LockMode;
  /**
   * How long Redis grants the lock for; the watchdog renews it after a third of that. A longer lease lets a dead holder
   * block others for longer; a shorter one needs more renewals, and is lost in a shorter pause of the process.
   * @default the module's `leaseMs`
   */
  leaseMs?: number;
  /**
   * How long to wait for a busy lock; 0 tries once, `Infinity` waits forever.
   * @default the module's `waitMs`
   */
  waitMs?: number;
  /**
   * The maximum number of other waiters when this call comes, from 1 to 1,000. If the queue has reached it, the call rejects with a
   * `LockBusyError` at once. The callers of a process that hand the lock to each other count as one; calls with `maxWaiters`
   * do not take part in that, and each of them counts.
   * @default no limit
   */
  maxWaiters?: number;
  /**
   * How long the lock may be held. Then the watchdog stops and the signal is aborted, so hung work cannot hold the lock forever.
   * @default the module's `maxHoldMs`
   */
  maxHoldMs?: number;
  /**
   * How long the key stays locked after the grant, even if the work ends sooner.
   * @default 0
   */
  holdAtLeastMs?: number;
  /**
   * Whether the watchdog renews the lease.
   * @default true
   */
  renew?: boolean;
  /**
   * With mode `read`: the maximum number of holders at once (a counting semaphore). Each call counts all readers of the key.
   * @default no limit
   */
  permits?: number;
  /**
   * With mode `read`: the number of permits that this call takes, at most `permits`. Without `permits`, it counts for other calls, and
   * where an operator sets the permits (`setPermits`).
   * @default 1
   */
  take?: number;
  /**
   * With `permits`: the maximum of them in this process, from 1 to 100,000. The other calls of the process wait locally, first
   * in, first out, before they ask for a permit. It counts the calls of this module with `perInstance`, separately for each key.
   * @default no limit
   */
  perInstance?: number;
  /**
   * First in, first out, and a waiting writer holds back new readers. The callers of one process may hand a write lock to each
   * other for up to 5 ms before another process gets it: each process has its turn. `'strict'`: first in, first out among
   * all callers of all processes; each caller sends its own commands. `false`: the next caller to ask gets a free lock;
   * waiters can starve.
   * @default true
   */
  fair?: boolean | 'strict';
  /**
   * The name of the holder, instead of a random id. Acquisitions with the same owner share the lock, in any process, with
   * one hold each. It is not a password: it is stored as it is, and any caller that has it gets in.
   */
  owner?: string;
  /**
   * A label of at most 256 bytes for operators, such as the number of an order: `inspect`, `list` and the errors of waiting calls
   * show it with the holder. It is stored as it is.
   */
  note?: string;
  /** Stops waiting; the call rejects with `signal.reason`. Does not stop the work. */
  signal?: AbortSignal;
  /**
   * Whether a nested call (`withLock` or a decorated method) may run under a hold of the key that its own chain of
   * calls has. `false`: it rejects with a `LockReentryError` at once, and so does a nested `acquire`, which would otherwise wait
   * for its own chain.
   * @default true
   */
  reentrant?: boolean;
  /**
   * Whether `withLock` or a decorated method waits for its release. `false`: if the lease is proven when the work ends, the call
   * returns at once, and the release continues. If the release then finds that the lock was lost before, only the `lost` event
   * reports it. No effect on `acquire`, whose caller decides whether to await `release()`.
   * @default the module's `awaitRelease`
   */
  awaitRelease?: boolean;
}

/** The options of an acquisition with all defaults filled in: 0 means no limit, and an empty `note` no note. */
export interface ResolvedLockOptions extends Readonly<Required<Omit<LockOptions, 'owner' | 'signal'>>> {
  readonly owner: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The defaults that the module sets for its calls. */
export interface LockDefaults extends Pick<ResolvedLockOptions, (typeof OF_MODULE)[number]> {
  /** Whether the store is a quorum of masters, which has no queue and no semaphores. */
  readonly isQuorum: boolean;
}

/** The options whose default is an option of the module. */
const OF_MODULE = ['leaseMs', 'waitMs', 'maxHoldMs', 'awaitRelease'] as const;

/** A lease must outlast a round trip and a late timer; more than 30 days is probably a wrong unit. */
const MIN_LEASE_MS = 50;
export const MAX_LEASE_MS = 30 * 24 * 3_600_000;
/** A store counts the waiters one by one. */
const MAX_WAITERS = 1_000;

/** The options of an acquisition, by their names. A new one needs a row here, and its type and text in `LockOptions`. */
export const LOCK_OPTIONS = {
  mode: option(oneOf('write', 'read'), 'write'),
  leaseMs: option(duration({ min: MIN_LEASE_MS, max: MAX_LEASE_MS })),
  waitMs: option(duration({ min: 0, max: Infinity })),
  maxWaiters: option(whole({ min: 1, max: MAX_WAITERS }), 0),
  maxHoldMs: option(duration({ min: 1, max: Infinity })),
  holdAtLeastMs: option(duration({ min: 0, max: MAX_LEASE_MS }), 0),
  renew: option(BOOLEAN, true),
  permits: option(PERMITS, 0),
  take: option(PERMITS, 1),
  perInstance: option(PERMITS, 0),
  fair: option(oneOf(true, false, 'strict'), true),
  owner: option(OWNER),
  note: option(NOTE, ''),
  signal: option(SIGNAL),
  reentrant: option(BOOLEAN, true),
  awaitRelease: option(BOOLEAN),
} satisfies OptionTable<LockOptions>;

/**
 * Checks the options of one call and returns a copy of them.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function checkLockOptions(options: LockOptions): LockOptions {
  if (typeof options !== 'object' || options === null) refuse('options', options, 'an object such as { waitMs: 0 }');
  const own = checkOptions(options, LOCK_OPTIONS, undefined, 'lock option');
  checkTogether(own);
  return own;
}

/** @throws LockConfigurationError for options that do not go together */
export function checkTogether({
  mode,
  permits,
  take,
  perInstance,
}: { readonly [name in keyof LockOptions]?: unknown }) {
  if (mode !== 'read') {
    if (permits !== undefined) refuse('permits', permits, FOR_READERS);
    if (take !== undefined) refuse('take', take, FOR_READERS);
  }
  if (perInstance !== undefined && permits === undefined)
    refuse('perInstance', perInstance, 'left out, or used with `permits`');
  checkFits({ permits, take, perInstance });
}

const FOR_READERS = "left out, or used with `mode: 'read'`";

/** The options of calls without any, by the defaults of their module. */
const withoutOptions = new WeakMap<LockDefaults, Record<string, unknown>>();

/**
 * Fills in the defaults of options that have been checked.
 * @throws LockConfigurationError for an option that a quorum cannot support
 */
export function resolveLockOptions(options: LockOptions, defaults: LockDefaults): ResolvedLockOptions {
  if (defaults.isQuorum) checkQuorumOptions(options);
  const filled = withoutOptions.get(defaults) ?? fill(defaults);
  let resolved: Record<string, unknown> = filled;
  for (const name in options) {
    const value = options[name as keyof LockOptions];
    if (value === undefined || value === resolved[name]) continue;
    // A call that differs from the defaults gets a copy.
    if (resolved === filled) resolved = { ...filled };
    resolved[name] = value;
  }
  return resolved as unknown as ResolvedLockOptions;
}

function fill(defaults: LockDefaults): Record<string, unknown> {
  const rows = Object.entries(LOCK_OPTIONS).map(([name, row]) => [name, row.default]);
  const ofModule = OF_MODULE.map((name) => [name, defaults[name]]);
  const filled = { ...Object.fromEntries([...rows, ...ofModule]), fair: !defaults.isQuorum };
  withoutOptions.set(defaults, filled);
  return filled;
}

/** Majorities could admit more holders than there are permits, and the queues of the masters may differ in order. */
function checkQuorumOptions(options: LockOptions): void {
  const name = queuedOption(options);
  if (name === undefined) return;
  throw new LockConfigurationError(
    `A quorum of masters does not support ${name}; leave it out, or use a \`connection\` to one Redis or a cluster.`,
  );
}

function queuedOption({ permits, take, maxWaiters, fair }: LockOptions): string | undefined {
  if (permits !== undefined) return '`permits` (a counting semaphore)';
  if (take !== undefined) return '`take` (a counting semaphore)';
  if (maxWaiters !== undefined) return '`maxWaiters` (a queue)';
  return fair ? `\`fair: ${typeof fair === 'string' ? `'${fair}'` : 'true'}\` (a queue)` : undefined;
}
