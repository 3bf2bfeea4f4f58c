import { type AcquireOutcome } from '../../core/store/callback-store.js';
import { type AcquireRequest } from '../../core/store/lock-store.js';
import { type Withdrawable } from '../connection/command.js';
import { type ScriptCall } from '../connection/command-runner.js';
import { type Operation } from '../codec/script-calls.js';
import { PendingOperation } from '../operation-batch.js';

/** The name of the server of a client that is not one of a cluster. */
export const ONLY_SERVER = '';

/** What receives the outcomes of the commands of an acquire. */
interface Receiver {
  onReply(pending: PendingAcquire, reply: readonly string[]): void;
  onFailure(pending: PendingAcquire, error: unknown): void;
  /** A reply came after the time of its command was up. */
  onLate(pending: PendingAcquire, reply: readonly string[]): void;
}

/** An acquire that is not decided yet. It has one command under way at a time, and receives its outcome. */
export class PendingAcquire extends PendingOperation {
  /** Made each time that it is sent with others. */
  operation!: Operation;
  /** How often it was sent. */
  sent = 0;
  isWithdrawn = false;
  /** Its first command, as long as that may be withdrawn. */
  withdrawable: Withdrawable | null = null;
  /** Of its last command: its server, by the name of its clock; when it was sent; and the call, unless it travels with others. */
  server = ONLY_SERVER;
  call: ScriptCall | null = null;
  /** Until when it is sent again. */
  readonly until: number;

  constructor(
    private readonly acquirer: Receiver,
    readonly request: AcquireRequest,
    readonly timeoutMs: number,
    /** When it was last sent, on our monotonic clock. */
    public sentAt: number,
    /** The epoch of the connection when it began. */
    readonly epoch: number,
    readonly outcome: AcquireOutcome,
  ) {
    super();
    this.until = sentAt + timeoutMs;
  }

  resolve(reply: string[]): void {
    this.acquirer.onReply(this, reply);
  }

  reject(error: unknown): void {
    this.acquirer.onFailure(this, error);
  }

  override onLate(reply: string[]): void {
    this.acquirer.onLate(this, reply);
  }
}
