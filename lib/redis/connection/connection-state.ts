import { type Clock } from '../../core/clock.js';
import { connectionErrorOf } from './redis-errors.js';
import { NEVER_READY, readableText } from './error-advice.js';

/** What the events of a client tell of its connection. */
export class ConnectionState {
  /** How many connections have ended, or failed to begin. */
  losses = 0;
  /** Whether the connection was lost, or could not be had, and is not there now. */
  isDown = false;
  /** Why the last connection failed, while there is none. */
  lastError: Error | undefined;
  /** Since when it is not ready, though it should be. */
  #unreadySince: number | null = null;
  /** Since when it leads to a replica, which writes nothing. */
  #readOnlySince: number | null = null;

  readonly #waiting = new Set<() => void>();

  constructor(private readonly clock: Clock) {}

  /** Calls back at the next change of what is ready; gives what takes that back. */
  onceChanged(callback: () => void): () => void {
    this.#waiting.add(callback);
    return () => this.#waiting.delete(callback);
  }

  /** Something else is ready now, or not any more. */
  changed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback();
  }

  /** Whether it has been of no use for longer than that. */
  isAwayFor(ms: number): boolean {
    const since = this.#unreadySince ?? this.#readOnlySince;
    return since !== null && this.clock.now() - since > ms;
  }

  onConnecting(): void {
    this.#unreadySince ??= this.clock.now();
  }

  onReady(): void {
    this.isDown = false;
    this.lastError = undefined;
    this.#unreadySince = null;
    this.#readOnlySince = null;
  }

  onClose(): void {
    this.#countLoss();
    // A server that takes connections and says nothing causes no error.
    if (this.#unreadySince !== null) this.lastError ??= new Error(NEVER_READY);
    this.#unreadySince ??= this.clock.now();
  }

  /** Gives its text, unless it is that of the error before: an outage says the same at each try. */
  onError(error: Error): string | null {
    const before = this.lastError && readableText(this.lastError);
    const ofSentinels = error.message.startsWith('All sentinels are unreachable');
    // So ioredis says, too, when they are reached and the master that they know is not.
    if (ofSentinels && before !== undefined && !error.message.includes('Last error')) return null;
    this.lastError = connectionErrorOf(error);
    // Where no sentinel knows a master, no connection begins that could end.
    if (ofSentinels) this.#countLoss();
    const text = readableText(this.lastError);
    return text === before ? null : text;
  }

  onReadOnly(): void {
    this.#readOnlySince ??= this.clock.now();
  }

  onAnswer(): void {
    this.#readOnlySince = null;
  }

  #countLoss(): void {
    this.losses += 1;
    this.isDown = true;
  }
}
