import {
  type AcquireRequest,
  type HoldRef,
  type ReleaseRequest,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { type ScriptCall } from '../connection/command-runner.js';
import { ACQUIRE } from '../scripts/acquire.js';
import { type LockScripts } from '../scripts/lock-scripts.js';
import { type Terms } from '../scripts/operation.js';
import { RELEASE } from '../scripts/release.js';
import { RENEW } from '../scripts/renew.js';
import { OPERATOR_TIMEOUT_MS } from '../timing.js';
import { type RedisKeys } from './redis-keys.js';

/** The operands of all scripts that change a lock. */
interface SharedOperands {
  /** As a text of ten digits. */
  readonly keepMs: string;
  readonly channelPrefix: string;
  /** 1: the number of receivers of a message says whether anybody listens. */
  readonly countReceivers: 0 | 1;
}

/** The digits of a duration in milliseconds, and of a time in microseconds: the scripts compare them as texts. */
const padded = (ms: number): string => String(ms).padStart(10, '0');

interface ScriptCallOptions {
  readonly keepMs: number;
  readonly channelPrefix: string;
  /** Whether the number of receivers of a message says whether anybody listens. */
  readonly countReceivers: boolean;
}

/** When an acquire is sent, and until when it may arrive, on the clock of the server, as far as it is known. */
export interface AcquireTimes {
  readonly sentMicros: number;
  readonly untilMicros: number;
}

/** An acquire, release or renewal of one lock: those that are requested together travel in one command. */
export interface Operation {
  readonly key: string;
  /** The storage key. */
  readonly lock: string;
  readonly attempt: string;
  /** Of a renewal. */
  readonly token?: string;
  readonly terms: Terms;
  readonly timeoutMs: number;
}

/** Writes commands: the script and the operands of each request. Keys were checked before (`RedisKeys.check`). */
export class ScriptCalls {
  readonly #shared: SharedOperands;

  constructor(
    private readonly scripts: LockScripts,
    private readonly keys: RedisKeys,
    private readonly options: ScriptCallOptions,
  ) {
    const { keepMs, channelPrefix, countReceivers } = options;
    this.#shared = { keepMs: padded(keepMs), channelPrefix, countReceivers: countReceivers ? 1 : 0 };
  }

  /** `now`: on our monotonic clock. */
  acquire(request: AcquireRequest, timeoutMs: number, now: number): Operation {
    const { keys, attempt, owner, mode, leaseMs, claim } = request;
    const terms = ACQUIRE.termsOf({
      ...this.#requestOperands(request),
      job: encodeJob(claim?.job),
      fireKind: claim?.kind ?? '-',
      fireMs: claim?.ms ?? 0,
      fireAgeMs: claim ? Math.round(now - claim.calledAt) : 0,
      rememberMs: claim?.rememberMs ?? 0,
      rerun: claim?.rerunOnLoss ? 1 : 0,
      plain: mode === 'write' && owner === undefined && !claim ? 1 : 0,
      ttlMs: ttlMs(this.options.keepMs, leaseMs),
      windowDigits: windowDigits(this.options.keepMs, leaseMs),
    });
    return { key: keys[0]!, lock: this.keys.storageKey(keys[0]!), attempt, terms, timeoutMs };
  }

  acquireMany(request: AcquireRequest, timeoutMs: number, times: AcquireTimes): ScriptCall {
    const { acquireMany: script } = this.scripts;
    const { keys, attempt } = request;
    const lock = keys.map((key) => this.keys.storageKey(key));
    const operands = script.operands({ ...this.#requestOperands(request), attempt, ...times, lock });
    return { script, operands, key: keys.join(', '), timeoutMs, echo: attempt };
  }

  renew({ key, attempt, fencingToken, leaseMs, mode, timeoutMs }: RenewRequest): Operation {
    const lease = { leaseMs: padded(leaseMs), ttlMs: ttlMs(this.options.keepMs, leaseMs) };
    const terms = RENEW.termsOf({ ...this.#shared, ...lease, mode, plain: mode === 'write' ? 1 : 0 });
    return { key, lock: this.keys.storageKey(key), attempt, token: String(fencingToken), terms, timeoutMs };
  }

  release({ key, attempt, ...request }: ReleaseRequest, timeoutMs: number): Operation {
    const { holdAtLeastMs, runOutcome = '-', job, unanswered } = request;
    const plain = holdAtLeastMs === 0 && runOutcome === '-' && !unanswered ? 1 : 0;
    const end = { holdAtLeastMs, job: encodeJob(job), runOutcome, unanswered: unanswered ? 1 : 0 };
    return {
      key,
      lock: this.keys.storageKey(key),
      attempt,
      terms: RELEASE.termsOf({ ...this.#shared, ...end, plain }),
      timeoutMs,
    };
  }

  /** The command of a single operation. */
  alone({ key, lock, attempt, token, terms, timeoutMs }: Operation, times: AcquireTimes): ScriptCall {
    const { kind, operands } = terms;
    const own = kind === 'acquire' ? [times.sentMicros, times.untilMicros] : kind === 'renew' ? [token!] : [];
    const script = this.scripts[kind];
    return { script, operands: [1, lock, attempt, ...own, ...operands], key, timeoutMs, echo: attempt };
  }

  downgrade(hold: HoldRef, timeoutMs: number): ScriptCall {
    const { downgrade } = this.scripts;
    return this.#call(downgrade, downgrade.operands(this.#operandsOf(hold)), hold, timeoutMs);
  }

  /** For a node of a quorum: replaces the token of a hold by the one that the quorum chose. */
  writeBack(hold: HoldRef, newToken: number, timeoutMs: number): ScriptCall {
    const { writeBack } = this.scripts;
    const operands = writeBack.operands({ ...this.#operandsOf(hold), newToken: String(newToken) });
    return this.#call(writeBack, operands, hold, timeoutMs);
  }

  /** `seenToken`: the last token granted when the operator looked; a later holder is left alone. */
  forceRelease(key: string, attempt: string, seenToken: number): ScriptCall {
    const { forceRelease } = this.scripts;
    const lock = this.keys.storageKey(key);
    const operands = forceRelease.operands({ ...this.#shared, lock, attempt, seenToken: String(seenToken) });
    return this.#call(forceRelease, operands, { key, attempt }, OPERATOR_TIMEOUT_MS);
  }

  inspect(key: string): ScriptCall {
    const { inspect } = this.scripts;
    const operands = inspect.operands({ lock: this.keys.storageKey(key) });
    return { script: inspect, operands, key, timeoutMs: OPERATOR_TIMEOUT_MS };
  }

  #requestOperands({ owner, mode, leaseMs, waiterLeaseMs, permits, holder, fair }: AcquireRequest) {
    const hold = { owner: encodeOwner(owner), mode, leaseMs: padded(leaseMs), waiterLeaseMs, permits };
    // Terms are one text with a value per line.
    return { ...this.#shared, ...hold, holder: holder.replaceAll('\n', ' '), fair: fair ? 1 : 0 };
  }

  #operandsOf({ key, attempt, fencingToken }: HoldRef) {
    return { ...this.#shared, lock: this.keys.storageKey(key), attempt, token: String(fencingToken) };
  }

  #call(
    script: ScriptCall['script'],
    operands: ScriptCall['operands'],
    { key, attempt }: { readonly key: string; readonly attempt: string },
    timeoutMs: number,
  ): ScriptCall {
    return { script, operands, key, timeoutMs, echo: attempt };
  }
}

/** A job is part of a field's name, and of a list, so it has no blanks and colons. The scripts write a missing job as `-`. */
const encodeJob = (job: string | undefined): string => (job === undefined ? '-' : encodeURIComponent(job));

/** The scripts write a missing owner as `-`. */
function encodeOwner(owner: string | undefined): string {
  if (owner === undefined) return '-';
  return owner === '-' ? '%2D' : encodeURIComponent(owner);
}

/** The time to live of a key whose lease is set to this, as the scripts compute it (`keep()` in scripts/parts/save.ts). */
export function ttlMs(keepMs: number, leaseMs: number): number {
  const spare = Math.floor(keepMs / 4);
  return keepMs + spare + Math.max(leaseMs, spare);
}

/**
 * How many first digits a token has in common with the time, 16 digits of microseconds, while a grant on the plain path need
 * not set the time to live. They change after a power of ten that is at most a quarter of `keepMs`; a lease that is longer
 * than this window always sets it.
 */
export function windowDigits(keepMs: number, leaseMs: number): number {
  const windowMs = 10 ** Math.floor(Math.log10(keepMs / 4));
  return leaseMs > windowMs ? 16 : 13 - Math.log10(windowMs);
}
