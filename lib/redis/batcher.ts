import { AsyncLocalStorage } from 'node:async_hooks';
import { LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { type AfterTurn } from '../core/runtime.js';
import { type AcquireTimes, type Operation, repeated, type ScriptCalls } from './codec/script-calls.js';
import { Command, readReply, type Script, withdrawnError } from './connection/command.js';
import { type Connection } from './connection/connection.js';
import { readableText } from './connection/error-advice.js';
import { renamedError, storeError } from './connection/redis-errors.js';
import { MAX_BATCH, promptBatch } from './timing.js';

/** An operation to send, with the receiver of its outcome. */
export interface Pending {
  readonly operation: Operation;
  /** Whether it has its own command. */
  readonly isAlone?: boolean;
  /** The batch that it is sent in, once the batch has begun. */
  batch?: Batch | null;
  /** May throw for an unreadable reply; then `reject` is also called. */
  resolve(reply: string[]): void;
  reject(error: unknown): void;
  /** Receives a reply that comes after the time limit. */
  onLate?(reply: string[]): void;
}

interface BatcherParts {
  readonly commands: Connection;
  readonly calls: ScriptCalls;
  /** The send time of an acquire that is sent now, and the time until which it may arrive. */
  readonly timesOf: (operation: Operation) => AcquireTimes;
  /** Calls back when the turn is over. */
  readonly afterTurn: AfterTurn;
  readonly reporter: Reporter;
}

/**
 * Sends acquires, releases and renewals. Operations of one turn of the event loop share a command; many acquires and releases are sent
 * as several commands. A single operation is not delayed beyond the turn. In a cluster, one command is for one lock.
 */
export class Batcher {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  /** The operations of this turn that were not sent yet. */
  #gathered: Pending[] = [];
  /** The operation in whose context the turn ends; null: this turn has no operation. */
  #first: Pending | null = null;
  /** Redis, or a proxy in front of it, refuses commands for locks of different slots. */
  #refusesSlots = false;

  constructor(readonly parts: BatcherParts) {}

  add(pending: Pending): void {
    // V8 allocates 17 elements when one is added to an empty list: most turns have one operation.
    if (this.#gathered.length === 0) this.#gathered = [pending];
    else this.#gathered.push(pending);
    if (!this.#first) {
      this.#first = pending;
      this.parts.afterTurn(this.#endTurn);
    }
    if (this.#areEnough(pending.operation)) this.#send(null);
  }

  /** Takes an operation back. Returns true if it was not and will not be sent. */
  withdraw(pending: Pending): boolean {
    if (pending.batch) return pending.batch.withdraw(pending);
    this.#gathered = this.#gathered.filter((one) => one !== pending);
    pending.reject(withdrawn(pending));
    return true;
  }

  /** Internal: Redis has refused a batch as a whole, and accepted each of its operations alone. */
  onRefused(error: LockStoreError): void {
    if (this.#isByLock) return;
    this.#refusesSlots = true;
    const reason = readableText(error.cause as Error);
    this.parts.reporter.warn(
      `Redis accepts no command for several locks (${reason}): from now on, each lock has its own commands.`,
    );
  }

  get #isByLock(): boolean {
    return this.#refusesSlots || this.parts.commands.isCluster;
  }

  readonly #endTurn = (): void => {
    const first = this.#first;
    this.#first = null;
    this.#send(first);
  };

  /** Whether to send before the turn is over. Renewals come in large numbers, and no call waits for them. */
  #areEnough({ terms }: Operation): boolean {
    if (this.#gathered.length < promptBatch(this.parts.commands.underWay) || terms.kind === 'renew') return false;
    return !this.#isByLock;
  }

  /** Sends the gathered operations; `current`: the one in whose context this runs. */
  #send(current: Pending | null): void {
    const all = this.#gathered;
    this.#gathered = [];
    // A command for several callers runs in none of their contexts.
    if (all.length === 1 && all[0] === current) return new Batch(all, this).start();
    const groups = this.#groupsOf(all);
    const send = (): void => groups.forEach((group) => new Batch(group, this).start());
    this.#inOurContext(() => (groups.length > 1 ? this.parts.commands.inOneWrite(send) : send()));
  }

  /** Groups operations with one time limit; operations of one lock stay in their order. */
  #groupsOf(all: readonly Pending[]): readonly (readonly Pending[])[] {
    if (all.length === 1) return [all];
    const isByLock = this.#isByLock;
    // Nearly always, all fit into one group.
    if (!isByLock && mayTravelTogether(all)) return inChunks(all);
    const groups: Pending[][] = [];
    /** The open group with this name, and the last group with a lock. */
    const [open, latest] = [new Map<string, number>(), new Map<string, number>()];
    /** An operation that is sent alone stays between its predecessors and its successors. */
    let least = 0;
    for (const pending of all) {
      const { isAlone, operation } = pending;
      const { timeoutMs, lock } = operation;
      const name = isByLock ? `${timeoutMs} ${lock}` : `${timeoutMs}`;
      let index = isAlone ? -1 : (open.get(name) ?? -1);
      if (index < Math.max(latest.get(lock) ?? 0, least) || groups[index]!.length === MAX_BATCH) {
        index = groups.push([]) - 1;
      }
      groups[index]!.push(pending);
      open.set(name, index);
      latest.set(lock, index);
      if (isAlone) least = index + 1;
    }
    return groups;
  }
}

const mayTravelTogether = (all: readonly Pending[]): boolean =>
  all.every(({ operation, isAlone }) => !isAlone && operation.timeoutMs === all[0]!.operation.timeoutMs);

const inChunks = (all: readonly Pending[]): readonly (readonly Pending[])[] =>
  Array.from({ length: Math.ceil(all.length / MAX_BATCH) }, (_, i) => all.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH));

const withdrawn = ({ operation }: Pending): LockStoreError =>
  storeError(operation.key, withdrawnError(), { wasSent: false });

/** The command of a batch of operations. */
export class Batch extends Command {
  /** The script as it was sent last. */
  sent: Script | null = null;
  /** An acquire that is sent again keeps its times. */
  #times: AcquireTimes | undefined;

  constructor(
    /** Without withdrawn operations. */
    private pending: readonly Pending[],
    private readonly batcher: Batcher,
    /** For an operation of a failed batch that is sent again alone: reports whether it was served. */
    private readonly onServed: ((isServed: boolean) => void) | null = null,
  ) {
    const { key, lock, timeoutMs } = pending[0]!.operation;
    super(batcher.parts.commands, { subject: key, storageKey: lock, timeoutMs });
    for (const one of pending) one.batch = this;
  }

  /** Takes an operation back. Returns true if it was not and will not be sent. */
  withdraw(pending: Pending): boolean {
    if (this.sent) return false;
    if (this.pending.length === 1) this.fail(withdrawnError());
    else {
      this.pending = this.pending.filter((one) => one !== pending);
      pending.reject(withdrawn(pending));
    }
    return true;
  }

  /** An operation that is withdrawn after this is still sent. */
  protected make(): Script {
    if (!this.sent) {
      const acquire = this.pending.find(({ operation: { terms } }) => terms.kind === 'acquire');
      this.#times = acquire && this.batcher.parts.timesOf(acquire.operation);
    }
    return (this.sent = this.#write());
  }

  #write(): Script {
    const { calls } = this.batcher.parts;
    const operations = this.pending.map(({ operation }) => (this.mayHaveRun ? repeated(operation) : operation));
    return operations.length === 1 ? calls.one(operations[0]!, this.#times) : calls.together(operations, this.#times);
  }

  protected read(reply: unknown): string[][] | null {
    const { pending } = this;
    if (pending.length === 1) {
      const one = readReply(pending[0]!.operation.attempt, reply);
      return one && [one];
    }
    const all: unknown = typeof reply === 'string' ? reply.split('\n') : reply;
    if (!Array.isArray(all) || all.length !== pending.length) return null;
    const read = pending.map(({ operation }, i) => readReply(operation.attempt, all[i]));
    return read.every((one) => one !== null) ? read : null;
  }

  protected resolve(replies: string[][]): void {
    let i = 0;
    for (const pending of this.pending) {
      const reply = replies[i]!;
      i += 1;
      try {
        if (this.#hasFailed(reply)) void this.#sendAlone(pending);
        else pending.resolve(reply);
        this.onServed?.(true);
      } catch (error) {
        this.#fail(pending, error);
      }
    }
  }

  protected reject(error: Error): void {
    if (this.pending.length > 1 && isRefused(error)) {
      // Nothing was executed. Servers and proxies word the reason differently: one lock, or their number.
      void Promise.all(this.pending.map((one) => this.#sendAlone(one))).then((served) => {
        if (served.every(Boolean)) this.batcher.onRefused(error);
      });
      return;
    }
    for (const pending of this.pending) this.#fail(pending, error);
  }

  /** A reply that its caller cannot read does not affect the others. */
  protected override onLate(replies: string[][]): void {
    for (const [i, pending] of this.pending.entries()) {
      const reply = replies[i]!;
      if (this.#hasFailed(reply)) continue;
      try {
        pending.onLate?.(reply);
      } catch {
        // The call is over.
      }
    }
  }

  /** An operation that is sent alone reports its own error. */
  #hasFailed(reply: readonly string[]): boolean {
    return this.pending.length > 1 && reply[0] === 'failed';
  }

  #sendAlone(pending: Pending): Promise<boolean> {
    return new Promise((onServed) => new Batch([pending], this.batcher, onServed).start());
  }

  #fail(pending: Pending, error: unknown): void {
    const { key } = pending.operation;
    const isOther = error instanceof LockStoreError && (error.key !== key || this.onServed !== null);
    // The batch that failed was sent, and may have begun the operation.
    pending.reject(isOther ? renamedError(error, key, this.onServed ? true : error.wasSent) : error);
    this.onServed?.(false);
  }
}

const isRefused = (error: Error): error is LockStoreError =>
  error instanceof LockStoreError &&
  error.wasSent &&
  !error.retryable &&
  (error.cause as Error | undefined)?.name === 'ReplyError';
