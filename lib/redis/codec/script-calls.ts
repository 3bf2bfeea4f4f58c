import {
  type AcquireRequest,
  type AdoptRequest,
  type HoldRef,
  type ReleaseRequest,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { type ScriptCall } from '../connection/command-runner.js';
import { type LockScripts } from '../scripts/lock-scripts.js';
import { type Terms } from '../scripts/operation.js';
import { OPERATOR_TIMEOUT_MS } from '../timing.js';
import { OperationTerms, type SharedOperands, oneLine, padded, requestedOperands } from './operation-terms.js';
import { type RedisKeys } from './redis-keys.js';

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
  readonly #terms: OperationTerms;

  constructor(
    private readonly scripts: LockScripts,
    private readonly keys: RedisKeys,
    { keepMs, channelPrefix, countReceivers }: ScriptCallOptions,
  ) {
    this.#shared = { keepMs: padded(keepMs), channelPrefix, countReceivers: countReceivers ? 1 : 0 };
    this.#terms = new OperationTerms(this.#shared);
  }

  /** `now`: on our monotonic clock. */
  acquire(request: AcquireRequest, timeoutMs: number, now: number): Operation {
    const { keys, attempt } = request;
    const lock = this.keys.storageKey(keys[0]!);
    return { key: keys[0]!, lock, attempt, terms: this.#terms.ofAcquire(request, now), timeoutMs };
  }

  acquireMany(request: AcquireRequest, timeoutMs: number, times: AcquireTimes): ScriptCall {
    const { acquireMany: script } = this.scripts;
    const { keys, attempt } = request;
    const lock = keys.map((key) => this.keys.storageKey(key));
    const operands = script.operands({ ...this.#shared, ...requestedOperands(request), attempt, ...times, lock });
    return { script, operands, key: keys.join(', '), timeoutMs, echo: attempt };
  }

  renew(request: RenewRequest): Operation {
    const { key, attempt, fencingToken, timeoutMs } = request;
    const lock = this.keys.storageKey(key);
    return { key, lock, attempt, token: String(fencingToken), terms: this.#terms.ofRenewal(request), timeoutMs };
  }

  release(request: ReleaseRequest, timeoutMs: number): Operation {
    const { key, attempt } = request;
    const lock = this.keys.storageKey(key);
    return { key, lock, attempt, terms: this.#terms.ofRelease(request), timeoutMs };
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

  adopt(request: AdoptRequest, timeoutMs: number): ScriptCall {
    const { adopt } = this.scripts;
    const { from, leaseMs, holder, unanswered } = request;
    const how = { from, leaseMs, holder: oneLine(holder), unanswered: unanswered ? 1 : 0 };
    return this.#call(adopt, adopt.operands({ ...this.#operandsOf(request), ...how }), request, timeoutMs);
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

  /** `permits`: null leaves their number to the requests. */
  setPermits(key: string, attempt: string, permits: number | null): ScriptCall {
    const { setPermits } = this.scripts;
    const lock = this.keys.storageKey(key);
    const operands = setPermits.operands({ ...this.#shared, lock, attempt, permits: permits ?? '-' });
    return this.#call(setPermits, operands, { key, attempt }, OPERATOR_TIMEOUT_MS);
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
