import {
  type AcquireRequest,
  type HoldRef,
  type ReleaseRequest,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { type ScriptCall } from '../connection/command-runner.js';
import { type LockScripts } from '../scripts/lock-scripts.js';
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

/** When an acquire is sent, and until when it may arrive. */
interface AcquireTimes {
  /** On our monotonic clock. */
  readonly now: number;
  /** On the clock of the server, as far as it is known. */
  readonly sentMicros: number;
  readonly untilMicros: number;
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

  acquire({ keys, claim, ...request }: AcquireRequest, timeoutMs: number, times: AcquireTimes): ScriptCall {
    const { acquire, acquireMany } = this.scripts;
    const { attempt, owner, mode, leaseMs, waiterLeaseMs, fair, permits, holder } = request;
    const { now, ...age } = times;
    const call = { key: keys.join(', '), timeoutMs, echo: attempt };
    const hold = { attempt, owner: encodeOwner(owner), mode, leaseMs: padded(leaseMs), waiterLeaseMs, permits, holder };
    const common = { ...this.#shared, ...hold, ...age, fair: fair ? 1 : 0 };
    if (keys.length > 1) {
      const lock = keys.map((key) => this.keys.storageKey(key));
      return { script: acquireMany, operands: acquireMany.operands({ ...common, lock }), ...call };
    }
    const operands = acquire.operands({
      ...common,
      lock: this.keys.storageKey(keys[0]!),
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
    return { script: acquire, operands, ...call };
  }

  renew({ leaseMs, mode, timeoutMs, ...hold }: RenewRequest): ScriptCall {
    const { renew } = this.scripts;
    const lease = { leaseMs: padded(leaseMs), ttlMs: ttlMs(this.options.keepMs, leaseMs) };
    const terms = { ...lease, mode, plain: mode === 'write' ? 1 : 0 };
    return this.#call(renew, renew.operands({ ...this.#operandsOf(hold), ...terms }), hold, timeoutMs);
  }

  release(request: ReleaseRequest, timeoutMs: number): ScriptCall {
    const { key, attempt, holdAtLeastMs, runOutcome = '-', job } = request;
    const { release } = this.scripts;
    const plain = holdAtLeastMs === 0 && runOutcome === '-' && !request.unanswered ? 1 : 0;
    const end = { holdAtLeastMs, job: encodeJob(job), runOutcome, unanswered: request.unanswered ? 1 : 0 };
    const operands = release.operands({ ...this.#shared, lock: this.keys.storageKey(key), attempt, ...end, plain });
    return this.#call(release, operands, request, timeoutMs);
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
