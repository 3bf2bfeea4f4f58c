import { type Outcome } from '../core/store/callback-store.js';
import { type ReleaseReply } from '../core/store/lock-store.js';
import { type Operation } from './codec/script-calls.js';
import { readReleaseReply } from './codec/store-replies.js';
import { type CommandRunner } from './connection/command-runner.js';
import { PendingOperation } from './operation-batch.js';

/** A release on its way. */
export class PendingRelease extends PendingOperation {
  /** The epoch of the connection when it began. */
  readonly #epoch: number;

  constructor(
    readonly operation: Operation,
    private readonly outcome: Outcome<ReleaseReply>,
    private readonly commands: Pick<CommandRunner, 'epoch'>,
  ) {
    super();
    this.#epoch = commands.epoch;
  }

  resolve(reply: string[]): void {
    const maybeResent = this.commands.epoch !== this.#epoch;
    this.outcome.resolve(readReleaseReply(this.operation.key, reply, maybeResent));
  }

  reject(error: Error): void {
    this.outcome.reject(error);
  }
}
