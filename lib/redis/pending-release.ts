import { type Outcome } from '../core/store/callback-store.js';
import { type ReleaseReply } from '../core/store/lock-store.js';
import { type Operation } from './codec/script-calls.js';
import { isUnservedRelease, readReleaseReply } from './codec/store-replies.js';
import { type CommandRunner } from './connection/command-runner.js';
import { PendingOperation } from './operation-batch.js';
import { type OperationBatches } from './operation-batches.js';
import { MAX_SENT } from './timing.js';

/** A release on its way. */
export class PendingRelease extends PendingOperation {
  /** The epoch of the connection when it began. */
  readonly #epoch: number;

  constructor(
    readonly operation: Operation,
    private readonly outcome: Outcome<ReleaseReply>,
    private readonly batches: OperationBatches,
    private readonly commands: Pick<CommandRunner, 'epoch'>,
  ) {
    super();
    this.#epoch = commands.epoch;
  }

  resolve(reply: string[]): void {
    if (isUnservedRelease(reply)) void this.#serveQueue();
    const maybeResent = this.commands.epoch !== this.#epoch;
    this.outcome.resolve(readReleaseReply(this.operation.key, reply, maybeResent));
  }

  reject(error: Error): void {
    this.outcome.reject(error);
  }

  /** Sends it again until the queue is served; it changes nothing else by then. */
  async #serveQueue(): Promise<void> {
    for (let sent = 1; sent < MAX_SENT; sent += 1) {
      const reply = await this.batches.run(this.operation).catch(() => null);
      if (!reply || !isUnservedRelease(reply)) return;
    }
  }
}
