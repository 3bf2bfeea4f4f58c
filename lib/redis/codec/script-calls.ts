import { type FireClaim } from '../../core/store/fires.js';
import {
  type AcquireRequest,
  type AdoptRequest,
  type HoldRef,
  type ReleaseRequest,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { type Script, type ScriptCall } from '../connection/command.js';
import { type LockScripts, type LuaScript, withHashes } from '../scripts/lock-scripts.js';
import { OPERATOR_TIMEOUT_MS } from '../timing.js';
import { type RedisKeys } from './redis-keys.js';

const NONE: readonly string[] = [];
/** The times of operations that may arrive at any time. */
const NO_TIMES: AcquireTimes = { sentMicros: 0, untilMicros: 0 };

interface ScriptCallOptions {
  readonly keepMs: number;
  readonly channelPrefix: string;
  /** Whether the number of receivers of a message shows if a subscriber listens. */
  readonly countReceivers: boolean;
  /** How long a command of an operator may take. */
  readonly operatorTimeoutMs?: number | undefined;
}

/** The send time of an acquire, and the time until which it may arrive, on the clock of the server, if known. */
export interface AcquireTimes {
  readonly sentMicros: number;
  readonly untilMicros: number;
}

/** The part of an operation that others of its kind share; scripts/operate.lua describes the text. */
interface Terms {
  readonly kind: 'acquire' | 'release' | 'renew' | 'other';
  readonly text: string;
}

/**
 * An acquire, release or renewal of one lock, or an acquire of several locks. Operations that are requested together are sent in one
 * command.
 */
export interface Operation {
  /** For errors. */
  readonly key: string;
  /** The storage key, and those of the other locks of the same acquire. */
  readonly lock: string;
  readonly others: readonly string[];
  readonly attempt: string;
  /** The token of a renewal; `1`: this release is a repetition. */
  readonly token?: string | undefined;
  readonly terms: Terms;
  readonly timeoutMs: number;
}

/** The same for another copy: a release then leaves no mark that its hold was lost before. */
export const repeated = (operation: Operation): Operation =>
  operation.terms.kind === 'release' ? { ...operation, token: '1' } : operation;

/** The fields of a request on which its terms depend. */
type Requested = Pick<
  AcquireRequest,
  'owner' | 'mode' | 'leaseMs' | 'waiterLeaseMs' | 'maxWaiters' | 'permits' | 'take' | 'holder' | 'fair'
>;
type Renewed = Pick<RenewRequest, 'leaseMs' | 'mode'> & Partial<Pick<RenewRequest, 'holder' | 'hasNewHolder'>>;
type Released = Pick<ReleaseRequest, 'holdAtLeastMs' | 'runOutcome' | 'job' | 'unanswered'>;

/** Writes commands: the script and the operands of each request. Keys were checked before (`RedisKeys.check`). */
export class ScriptCalls {
  readonly #scripts: Readonly<Record<keyof LockScripts, LuaScript>>;
  /** The beginning of the terms of each operation, after its kind. */
  readonly #head: string;
  readonly #operatorTimeoutMs: number;

  constructor(
    scripts: LockScripts,
    private readonly keys: RedisKeys,
    { keepMs, channelPrefix, countReceivers, operatorTimeoutMs = OPERATOR_TIMEOUT_MS }: ScriptCallOptions,
  ) {
    this.#scripts = withHashes(scripts);
    this.#operatorTimeoutMs = operatorTimeoutMs;
    this.#head = `${keepMs} ${countReceivers ? 1 : 0} ${channelPrefix}`;
  }

  /** `now`: on the monotonic clock. */
  acquire(request: AcquireRequest, timeoutMs: number, now: number): Operation {
    const { keys, attempt, claim } = request;
    const terms = this.#acquireTerms(request);
    // The age of a fire differs in each acquire.
    const own = claim ? { ...terms, text: terms.text + fireText(claim, now) } : terms;
    const operation = this.#operation({ key: keys[0]!, attempt }, own, timeoutMs);
    if (keys.length === 1) return operation;
    const others = keys.slice(1).map((key) => this.keys.storageKey(key));
    return { ...operation, key: keys.join(', '), others };
  }

  renew(request: RenewRequest): Operation {
    const { fencingToken, timeoutMs } = request;
    return this.#operation(request, this.#renewTerms(request), timeoutMs, fencingToken);
  }

  release(request: ReleaseRequest, timeoutMs: number): Operation {
    const operation = this.#operation(request, this.#releaseTerms(request), timeoutMs);
    return request.isRepeated ? repeated(operation) : operation;
  }

  /** The command of a single operation. */
  alone(operation: Operation, times?: AcquireTimes): ScriptCall {
    const { key, attempt, timeoutMs } = operation;
    return { ...this.one(operation, times), key, timeoutMs, echo: attempt };
  }

  /** The same without the values that check its reply. */
  one(operation: Operation, { sentMicros, untilMicros } = NO_TIMES): Script {
    const { lock, others, terms } = operation;
    const operands = [1 + others.length, lock, ...others, sentMicros, untilMicros, ownLine(1, operation), terms.text];
    return { script: this.#scripts.operate, operands };
  }

  /** One command for several operations, with each text of terms once. */
  together(operations: readonly Operation[], { sentMicros, untilMicros } = NO_TIMES): Script {
    const known: Terms[] = [];
    const texts: string[] = [];
    const numbers: number[] = [];
    let own = '';
    for (const operation of operations) {
      const { terms } = operation;
      let at = known.indexOf(terms);
      if (at < 0) {
        at = known.push(terms) - 1;
        // Texts take longer to compare than objects.
        const same = texts.indexOf(terms.text);
        numbers.push(same < 0 ? texts.push(terms.text) : same + 1);
      }
      own += ownLine(numbers[at]!, operation);
    }
    const locks: string[] = [];
    for (const { lock, others } of operations) locks.push(lock, ...others);
    return {
      script: this.#scripts.operate,
      operands: [locks.length, ...locks, sentMicros, untilMicros, own, ...texts],
    };
  }

  adopt(request: AdoptRequest, timeoutMs: number): ScriptCall {
    const { from, leaseMs, holder, unanswered } = request;
    return this.#call('d', request, `${from} ${leaseMs} ${unanswered ? 1 : 0}\n${oneLine(holder)}`, timeoutMs);
  }

  /** For a node of a quorum: replaces the token of a hold by the one that the quorum chose. */
  writeBack(hold: HoldRef, newToken: number, timeoutMs: number): ScriptCall {
    return this.#call('w', hold, newToken, timeoutMs);
  }

  /** `seenToken`: the last token granted when the operator read the state; a later holder keeps the lock. */
  forceRelease(key: string, attempt: string, seenToken: number): ScriptCall {
    return this.#call('f', { key, attempt }, seenToken);
  }

  /** `permits`: null leaves their number to the requests. */
  setPermits(key: string, attempt: string, permits: number | null): ScriptCall {
    return this.#call('p', { key, attempt }, permits ?? '-');
  }

  inspect(key: string): ScriptCall {
    const operands = [1, this.keys.storageKey(key)];
    return { script: this.#scripts.inspect, operands, key, timeoutMs: this.#operatorTimeoutMs };
  }

  #call(
    kind: string,
    lock: Pick<HoldRef, 'key' | 'attempt'> & Partial<HoldRef>,
    own: string | number,
    timeoutMs = this.#operatorTimeoutMs,
  ): ScriptCall {
    const terms = { kind: 'other', text: `${kind} ${this.#head}\n${own}` } as const;
    return this.alone(this.#operation(lock, terms, timeoutMs, lock.fencingToken));
  }

  #operation(
    { key, attempt }: { readonly key: string; readonly attempt: string },
    terms: Terms,
    timeoutMs: number,
    token?: number,
  ): Operation {
    const lock = this.keys.storageKey(key);
    const tokenText = token === undefined ? undefined : String(token);
    return { key, lock, others: NONE, attempt, token: tokenText, terms, timeoutMs };
  }

  readonly #acquireTerms = keepingLast(
    (a: Requested, b: Requested) =>
      a.owner === b.owner &&
      a.mode === b.mode &&
      a.leaseMs === b.leaseMs &&
      a.waiterLeaseMs === b.waiterLeaseMs &&
      a.maxWaiters === b.maxWaiters &&
      a.permits === b.permits &&
      a.take === b.take &&
      a.holder === b.holder &&
      a.fair === b.fair,
    (asked: Requested): Terms => ({ kind: 'acquire', text: this.#acquireText(asked) }),
  );

  readonly #renewTerms = keepingLast(
    (a: Renewed, b: Renewed) => a.leaseMs === b.leaseMs && a.mode === b.mode && newHolderOf(a) === newHolderOf(b),
    (asked: Renewed): Terms => {
      const { mode, leaseMs } = asked;
      return { kind: 'renew', text: `n ${this.#head}\n${mode[0]} ${leaseMs}${newHolderOf(asked)}` };
    },
  );

  readonly #releaseTerms = keepingLast(
    (a: Released, b: Released) =>
      a.holdAtLeastMs === b.holdAtLeastMs &&
      a.runOutcome === b.runOutcome &&
      a.job === b.job &&
      a.unanswered === b.unanswered,
    ({ holdAtLeastMs, runOutcome, job, unanswered }: Released): Terms => ({
      kind: 'release',
      text: `r ${this.#head}\n${unanswered ? 1 : 0} ${holdAtLeastMs} ${encodeName(job)} ${runOutcome ?? '-'}`,
    }),
  );

  #acquireText(asked: Requested): string {
    const { owner, mode, leaseMs, waiterLeaseMs, maxWaiters = 0, permits, take = 1, holder, fair } = asked;
    const numbers = `${leaseMs} ${waiterLeaseMs} ${maxWaiters} ${permits} ${take}`;
    return `a ${this.#head}\n${mode[0]} ${fair ? 1 : 0} ${numbers}\n${oneLine(holder)}\n${encodeName(owner)}\n`;
  }
}

/**
 * Creates the terms of requests. Consecutive requests nearly always have the same terms, so they share one object: to create it costs
 * more than all other work of a request before it is sent.
 */
function keepingLast<Request extends object>(
  areTheSame: (a: Request, b: Request) => boolean,
  make: (request: Request) => Terms,
): (request: Request) => Terms {
  let last: { readonly request: Request; readonly terms: Terms } | null = null;
  return (request) => {
    if (!last || !areTheSame(last.request, request)) last = { request, terms: make(request) };
    return last.terms;
  };
}

/** The line of the present holder; empty: the holder of the grant. */
const newHolderOf = ({ hasNewHolder, holder }: Renewed): string =>
  hasNewHolder && holder ? `\n${oneLine(holder)}` : '';

/** The part of an operation that it does not share: the number of its terms, its attempt, and the token of a renewal. */
const ownLine = (number: number, { attempt, token }: Operation): string =>
  token === undefined ? `${number} ${attempt}\n` : `${number} ${attempt} ${token}\n`;

const fireText = ({ job, kind, ms, calledAt, rememberMs, rerunOnLoss }: FireClaim, now: number): string =>
  `${encodeName(job)} ${kind} ${ms} ${Math.round(now - calledAt)} ${rememberMs} ${rerunOnLoss ? 1 : 0}`;

/** Terms are one text with a value per line. */
const oneLine = (text: string): string => text.replaceAll('\n', ' ');

/**
 * A job or an owner is a part of the names of fields and of lists, so blanks and colons are encoded. The scripts write a missing name
 * as `-`.
 */
function encodeName(name: string | undefined): string {
  if (name === undefined) return '-';
  return name === '-' ? '%2D' : encodeURIComponent(name);
}
