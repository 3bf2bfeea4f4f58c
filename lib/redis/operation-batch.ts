import { LockStoreError } from '../core/lock.errors.js';
import { type Outcome } from '../core/store/callback-store.js';
import { type AcquireTimes, type Operation, type ScriptCalls } from './codec/script-calls.js';
import { type Withdrawable, withdrawnError } from './connection/command.js';
import { type CommandRunner } from './connection/command-runner.js';
import { renamedError, storeError } from './connection/redis-errors.js';
import { FAILED, readLone, readReplies } from './connection/reply-reader.js';
import { type BatchCall, type Script } from './connection/script-delivery.js';

/** What operations are sent with. */
export interface BatchParts {
  readonly commands: CommandRunner;
  readonly calls: ScriptCalls;
  /** When the acquires that are sent now were sent, and until when they may arrive. */
  readonly timesOf: (operation: Operation) => AcquireTimes;
}

/**
 * One operation on its way. It receives its outcome: one object for both, since each acquire and each release has one. `resolve`
 * may throw for a reply that it cannot read; then `reject` is called, too.
 */
export abstract class PendingOperation implements Outcome<string[], Error>, Withdrawable {
  /** What is sent. */
  abstract readonly operation: Operation;
  /** Where it waits for the end of the turn, and what it travels in after that. */
  carrier: { withdraw(one: PendingOperation): boolean } | null = null;

  abstract resolve(reply: string[]): void;
  abstract reject(error: Error): void;
  /** Receives a reply that comes after the timeout. */
  onLate?(reply: string[]): void;

  withdraw(): boolean {
    return this.carrier?.withdraw(this) ?? false;
  }

  /** Nothing of it was sent. */
  onWithdrawn(): void {
    this.reject(storeError(this.operation.key, withdrawnError(), { wasSent: false }));
  }
}

/** Operations that travel in one command. */
export class OperationBatch implements BatchCall, Outcome<string[][], Error> {
  readonly subject: string;
  readonly storageKey: string;
  readonly timeoutMs: number;
  #command: Withdrawable | null = null;
  /** What was sent. */
  #sent: Script | null = null;

  constructor(
    /** Without those that were withdrawn. */
    private pending: readonly PendingOperation[],
    private readonly parts: BatchParts,
    /** Redis has refused it as a whole, and took each of its operations alone. */
    private readonly onRefused: (error: LockStoreError) => void,
  ) {
    const { key, lock, timeoutMs } = pending[0]!.operation;
    this.subject = key;
    this.storageKey = lock;
    this.timeoutMs = timeoutMs;
    for (const one of pending) one.carrier = this;
  }

  onStart(command: Withdrawable): void {
    this.#command = command;
  }

  /** Withdraws one operation; returns true when nothing was sent of it, and nothing will be. */
  withdraw(pending: PendingOperation): boolean {
    if (this.#sent) return false;
    if (this.pending.length === 1) return this.#command?.withdraw() ?? false;
    this.pending = this.pending.filter((one) => one !== pending);
    pending.onWithdrawn();
    return true;
  }

  toSend(): Script {
    return (this.#sent ??= this.#scriptOf());
  }

  /** What is withdrawn after this is sent nevertheless. */
  #scriptOf(): Script {
    const { calls, timesOf } = this.parts;
    const operations = this.pending.map(({ operation }) => operation);
    const times = timesOf(operations.find(({ terms }) => terms.kind === 'acquire') ?? operations[0]!);
    return calls.together(operations, times);
  }

  read(reply: unknown): string[][] | undefined {
    const echoes = this.pending.map(({ operation }) => operation.attempt);
    return echoes.length > 1 ? readReplies(echoes, reply) : readLone(echoes[0], reply);
  }

  resolve(replies: string[][]): void {
    this.pending.forEach((pending, i) => this.#settle(pending, replies[i]!));
  }

  reject(error: Error): void {
    if (this.pending.length > 1 && isRefused(error)) {
      // Nothing was done. Servers and proxies say in words of their own why: one lock, or that there are several.
      void Promise.all(this.pending.map((one) => this.#sendAlone(one))).then((served) => {
        if (served.every(Boolean)) this.onRefused(error);
      });
      return;
    }
    for (const pending of this.pending) pending.reject(asFailureOf(error, pending.operation.key));
  }

  /** A reply that its caller cannot read concerns no other one. */
  onLate(replies: string[][]): void {
    for (const [i, pending] of this.pending.entries()) {
      const reply = replies[i]!;
      if (hasFailed(reply)) continue;
      try {
        pending.onLate?.(reply);
      } catch {
        // The call is over.
      }
    }
  }

  #settle(pending: PendingOperation, reply: string[]): void {
    try {
      if (hasFailed(reply)) void this.#sendAlone(pending);
      else pending.resolve(reply);
    } catch (error) {
      pending.reject(error as Error);
    }
  }

  /** Returns whether it was served. */
  async #sendAlone(pending: PendingOperation): Promise<boolean> {
    const { commands, calls, timesOf } = this.parts;
    const { operation } = pending;
    try {
      const call = calls.alone(operation, timesOf(operation));
      pending.resolve(await commands.run({ ...call, onLate: (reply) => pending.onLate?.(reply) }));
      return true;
    } catch (error) {
      // The batch was sent, and may have begun it.
      pending.reject(error instanceof LockStoreError ? renamedError(error, operation.key, true) : (error as Error));
      return false;
    }
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
