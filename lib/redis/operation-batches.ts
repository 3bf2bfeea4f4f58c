import { AsyncLocalStorage } from 'node:async_hooks';
import { type AfterTurn } from '../core/runtime.js';
import { type Operation } from './codec/script-calls.js';
import { type LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { readableText } from './connection/error-advice.js';
import { type BatchParts, OperationBatch, PendingOperation } from './operation-batch.js';
import { MAX_BATCH, promptBatch } from './timing.js';

/**
 * Sends acquires, releases and renewals. Those that are requested in one turn of the event loop travel together, many acquires and
 * releases as several commands; one that is alone has a script of its own, and is not delayed beyond the turn. In a cluster, one
 * command is for one lock.
 */
export class OperationBatches {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  /** Those of this turn that were not sent yet. */
  #gathered: PendingOperation[] = [];
  /** The one in whose context the turn ends; null: none was asked for in this turn. */
  #first: PendingOperation | null = null;
  /** Whether something else waits to be sent behind those of this turn. */
  #isFollowed = false;
  /** Redis, or a proxy of it, takes no command for locks of different slots. */
  #refusesSlots = false;

  constructor(
    private readonly parts: BatchParts & {
      /** Calls back when the turn is over. */
      readonly afterTurn: AfterTurn;
      readonly reporter: Reporter;
    },
  ) {}

  /** Resolves with the reply of the operation's script. @throws LockStoreError */
  run(operation: Operation): Promise<string[]> {
    return new Promise((resolve, reject) => this.start(new AwaitedOperation(operation, resolve, reject)));
  }

  /** Passes on the reply of the operation's script, or a `LockStoreError`. */
  start(pending: PendingOperation): void {
    pending.carrier = this;
    this.#gathered.push(pending);
    if (!this.#first) {
      this.#first = pending;
      this.parts.afterTurn(this.#endTurn);
    }
    if (this.#areEnough(pending.operation)) this.#send(null);
  }

  /** Internal: withdraws an operation before the turn is over. */
  withdraw(pending: PendingOperation): boolean {
    this.#gathered = this.#gathered.filter((one) => one !== pending);
    pending.onWithdrawn();
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
    if (this.#gathered.length < promptBatch(this.parts.commands.underWay) || terms.kind === 'renew') return false;
    return !this.#isByLock && !this.#isFollowed;
  }

  /** Sends what was gathered; `current`: the one in whose context this runs. */
  #send(current: PendingOperation | null): void {
    const all = this.#gathered;
    this.#gathered = [];
    // A command for several callers is in the context of none.
    if (all.length === 1 && all[0] === current) return this.#sendGroup(all);
    const groups = this.#groupsOf(all);
    const send = (): void => groups.forEach((group) => this.#sendGroup(group));
    this.#inOurContext(() => (groups.length > 1 ? this.parts.commands.inOneWrite(send) : send()));
  }

  /** Those with one time limit travel together, and those of one lock stay in their order. */
  #groupsOf(all: readonly PendingOperation[]): readonly (readonly PendingOperation[])[] {
    if (all.length === 1) return [all];
    const isByLock = this.#isByLock;
    // Nearly always, all may travel together.
    if (!isByLock && haveOneLimit(all)) return inChunks(all);
    const groups: PendingOperation[][] = [];
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

  #onRefused(error: LockStoreError): void {
    if (this.#isByLock) return;
    this.#refusesSlots = true;
    const reason = readableText(error.cause as Error);
    this.parts.reporter.warn(
      `Redis takes no command for several locks (${reason}): from now on, each lock has commands of its own.`,
    );
  }

  #sendGroup(group: readonly PendingOperation[]): void {
    const batch = new OperationBatch(group, this.parts, (error) => this.#onRefused(error));
    try {
      this.parts.commands.start(batch, batch);
    } catch (error) {
      // Nobody would catch what is thrown after the turn.
      batch.reject(error as Error);
    }
  }
}

class AwaitedOperation extends PendingOperation {
  constructor(
    readonly operation: Operation,
    private readonly onReply: (reply: string[]) => void,
    private readonly onError: (error: Error) => void,
  ) {
    super();
  }

  resolve(reply: string[]): void {
    this.onReply(reply);
  }

  reject(error: Error): void {
    this.onError(error);
  }
}

const haveOneLimit = (all: readonly PendingOperation[]): boolean =>
  all.every(({ operation }) => operation.timeoutMs === all[0]!.operation.timeoutMs);

const inChunks = (all: readonly PendingOperation[]): readonly (readonly PendingOperation[])[] =>
  Array.from({ length: Math.ceil(all.length / MAX_BATCH) }, (_, i) => all.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH));
