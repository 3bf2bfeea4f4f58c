import { AsyncLocalStorage } from 'node:async_hooks';
import { LockStoreError } from '../core/lock.errors.js';
import { type AfterTurn } from '../core/runtime.js';
import { type Outcome } from '../core/store/callback-store.js';
import { type AcquireTimes, type Operation, type ScriptCalls } from './codec/script-calls.js';
import { withdrawnError } from './connection/command.js';
import { type CommandRunner, type Script } from './connection/command-runner.js';
import { readLone, readReplies } from './connection/reply-reader.js';
import { needsCluster } from './connection/error-advice.js';
import { renamedError, storeError } from './connection/redis-errors.js';
import { FAILED, batchOperands } from './scripts/batch.js';
import { type LockScripts } from './scripts/lock-scripts.js';
import { MAX_BATCH, PROMPT_BATCH } from './timing.js';

/** What operations are sent with. */
interface BatchParts {
  readonly commands: CommandRunner;
  readonly calls: ScriptCalls;
  readonly scripts: LockScripts;
  readonly afterTurn: AfterTurn;
  /** When the acquires that are sent now were sent, and until when they may arrive. */
  readonly timesOf: (operation: Operation) => AcquireTimes;
}

/** `resolve` may throw for a reply that it cannot read; then `reject` is called, too. */
export interface OperationOutcome extends Outcome<string[], Error> {
  /** Receives a reply that comes after the timeout. */
  onLate?(reply: string[]): void;
}

/** One operation on its way. */
export interface Pending {
  readonly operation: Operation;
  readonly outcome: OperationOutcome;
  /** Null until the turn is over. */
  batch: Batch | null;
}

/** Operations that travel in one command. */
interface Batch {
  /** Without those that were withdrawn. */
  pending: readonly Pending[];
  /** The command, once it has been sent. */
  sent: Script | null;
  /** Withdraws the command. */
  withdraw: () => boolean;
}

/**
 * Sends acquires, releases and renewals. Those that are requested in one turn of the event loop travel together, many acquires and
 * releases as several commands; one that is alone has a script of its own, and is not delayed beyond the turn. In a cluster, one
 * command is for one lock.
 */
export class OperationBatches {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  /** Those of this turn that were not sent yet. */
  #gathered: Pending[] = [];
  /** The one in whose context the turn ends; null: none was asked for in this turn. */
  #first: Pending | null = null;
  /** Whether something else waits to be sent behind those of this turn. */
  #isFollowed = false;
  /** Redis takes no command for locks of different slots. */
  #refusesSlots = false;

  constructor(private readonly parts: BatchParts) {}

  /** Resolves with the reply of the operation's script. @throws LockStoreError */
  run(operation: Operation): Promise<string[]> {
    return new Promise((resolve, reject) => void this.start(operation, { resolve, reject }));
  }

  /** Passes on the reply of the operation's script, or a `LockStoreError`. Returns what can be withdrawn. */
  start(operation: Operation, outcome: OperationOutcome): Pending {
    const pending: Pending = { operation, outcome, batch: null };
    this.#gathered.push(pending);
    if (!this.#first) {
      this.#first = pending;
      this.parts.afterTurn(this.#endTurn);
    }
    if (this.#areEnough(operation)) this.#send(null);
    return pending;
  }

  /** Withdraws an operation; returns true when nothing was sent, and nothing will be. */
  withdraw(pending: Pending): boolean {
    const { batch, operation, outcome } = pending;
    if (batch?.sent) return false;
    if (batch?.pending.length === 1) return batch.withdraw();
    if (batch) batch.pending = batch.pending.filter((one) => one !== pending);
    else this.#gathered = this.#gathered.filter((one) => one !== pending);
    outcome.reject(storeError(operation.key, withdrawnError(), { wasSent: false }));
    return true;
  }

  /** Calls back in this turn, when the operations that were asked for before are sent: what is sent then stays behind them. */
  behind(send: () => void): void {
    this.#isFollowed = true;
    this.parts.afterTurn(() => {
      this.#isFollowed = false;
      send();
    });
  }

  get #isByLock(): boolean {
    return this.#refusesSlots || this.parts.commands.isCluster;
  }

  readonly #endTurn = (): void => {
    const first = this.#first;
    this.#first = null;
    this.#send(first);
  };

  /** Whether to send before the turn is over. Renewals come in great numbers, and nobody waits for them. */
  #areEnough({ terms }: Operation): boolean {
    if (this.#gathered.length < PROMPT_BATCH || terms.kind === 'renew') return false;
    return !this.#isByLock && !this.#isFollowed;
  }

  /** Sends what was gathered; `current`: the one in whose context this runs. */
  #send(current: Pending | null): void {
    const all = this.#gathered;
    this.#gathered = [];
    // A command for several callers is in the context of none.
    if (all.length === 1 && all[0] === current) return this.#sendGroup(all);
    const groups = this.#groupsOf(all);
    const send = (): void => groups.forEach((group) => this.#sendGroup(group));
    this.#inOurContext(() => (groups.length > 1 ? this.parts.commands.inOneWrite(send) : send()));
  }

  /** Those with one time limit travel together, and those of one lock stay in their order. */
  #groupsOf(all: readonly Pending[]): readonly (readonly Pending[])[] {
    if (all.length === 1) return [all];
    const isByLock = this.#isByLock;
    // Nearly always, all may travel together.
    if (!isByLock && haveOneLimit(all)) return inChunks(all);
    const groups: Pending[][] = [];
    /** The group that takes those of this name, and the last one that has a lock. */
    const [open, latest] = [new Map<string, number>(), new Map<string, number>()];
    for (const pending of all) {
      const { timeoutMs, lock } = pending.operation;
      const name = isByLock ? `${timeoutMs} ${lock}` : `${timeoutMs}`;
      let index = open.get(name) ?? -1;
      if (index < (latest.get(lock) ?? 0) || groups[index]!.length === MAX_BATCH) index = groups.push([]) - 1;
      groups[index]!.push(pending);
      open.set(name, index);
      latest.set(lock, index);
    }
    return groups;
  }

  #sendGroup(group: readonly Pending[]): void {
    const { commands } = this.parts;
    const { key, lock, timeoutMs } = group[0]!.operation;
    const batch: Batch = { pending: group, sent: null, withdraw: () => false };
    for (const pending of group) pending.batch = batch;
    const call = {
      subject: key,
      storageKey: lock,
      timeoutMs,
      onStart: (withdraw: () => boolean) => void (batch.withdraw = withdraw),
      toSend: () => (batch.sent ??= this.#commandOf(batch)),
      read: (reply: unknown) => readAll(batch, reply),
      onLate: (replies: string[][]) => {
        batch.pending.forEach(({ outcome }, i) => tellLate(outcome, replies[i]!));
      },
    };
    const reject = (error: Error): void => {
      if (batch.pending.length > 1 && isRefused(error)) return this.#onRefused(batch, error);
      for (const { operation, outcome } of batch.pending) outcome.reject(asFailureOf(error, operation.key));
    };
    const resolve = (replies: string[][]): void => {
      batch.pending.forEach((pending, i) => this.#settle(pending, replies[i]!));
    };
    try {
      commands.start(call, { resolve, reject });
    } catch (error) {
      // Nobody would catch what is thrown after the turn.
      reject(error as Error);
    }
  }

  /** What is withdrawn after this is sent nevertheless. */
  #commandOf({ pending }: Batch): Script {
    const { calls, scripts, timesOf } = this.parts;
    const operations = pending.map(({ operation }) => operation);
    const times = timesOf(operations.find(({ terms }) => terms.kind === 'acquire') ?? operations[0]!);
    if (operations.length === 1) return calls.alone(operations[0]!, times);
    return { script: scripts.batch, operands: batchOperands(operations, times) };
  }

  /** Redis has refused the command as a whole, perhaps because of one lock: nothing was done. */
  #onRefused({ pending }: Batch, { cause }: LockStoreError): void {
    this.#refusesSlots ||= needsCluster(cause as Error);
    for (const one of pending) this.#settle(one, [FAILED]);
  }

  #settle({ operation, outcome }: Pending, reply: string[]): void {
    try {
      if (hasFailed(reply)) this.#sendAlone(operation, outcome);
      else outcome.resolve(reply);
    } catch (error) {
      outcome.reject(error as Error);
    }
  }

  #sendAlone(operation: Operation, outcome: OperationOutcome): void {
    const { commands, calls, timesOf } = this.parts;
    const call = calls.alone(operation, timesOf(operation));
    commands
      .run({ ...call, onLate: (reply) => outcome.onLate?.(reply) })
      .then((reply) => outcome.resolve(reply))
      // The batch was sent, and may have begun it.
      .catch((error: Error) =>
        outcome.reject(error instanceof LockStoreError ? renamedError(error, operation.key, true) : error),
      );
  }
}

function readAll({ pending }: Batch, reply: unknown): string[][] | undefined {
  const echoes = pending.map(({ operation }) => operation.attempt);
  return echoes.length > 1 ? readReplies(echoes, reply) : readLone(echoes[0], reply);
}

/** A reply that its caller cannot read concerns no other one. */
function tellLate(outcome: OperationOutcome, reply: string[]): void {
  if (hasFailed(reply)) return;
  try {
    outcome.onLate?.(reply);
  } catch {
    // The call is over.
  }
}

const isRefused = (error: Error): error is LockStoreError =>
  error instanceof LockStoreError &&
  error.wasSent &&
  !error.retryable &&
  (error.cause as Error | undefined)?.name === 'ReplyError';

const hasFailed = (reply: readonly string[]): boolean => reply[0] === FAILED;

const asFailureOf = (error: Error, key: string): Error =>
  error instanceof LockStoreError && error.key !== key ? renamedError(error, key) : error;

const haveOneLimit = (all: readonly Pending[]): boolean =>
  all.every(({ operation }) => operation.timeoutMs === all[0]!.operation.timeoutMs);

const inChunks = (all: readonly Pending[]): readonly (readonly Pending[])[] =>
  Array.from({ length: Math.ceil(all.length / MAX_BATCH) }, (_, i) => all.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH));
