import { withoutSecrets } from './redis-errors.js';
import { NEVER_READY, readableText } from './error-advice.js';

/** The state of a client's connection, as its events report it. */
export class ConnectionState {
  /** How many connections have ended, or failed to begin. */
  losses = 0;
  /** Whether the connection was lost, or could not be opened, and has not come back. */
  isDown = false;
  /** Why the last connection failed; undefined while there is one. */
  lastError: Error | undefined;
  /** Whether the connection should be ready, but is not. */
  #isUnready = false;

  readonly #waiting = new Set<() => void>();

  /** Calls back once, at the next change; returns a function that cancels. */
  onceChanged(callback: () => void): () => void {
    this.#waiting.add(callback);
    return () => this.#waiting.delete(callback);
  }

  /** Whether commands can be sent has changed. */
  changed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback();
  }

  onConnecting(): void {
    this.#isUnready = true;
  }

  onReady(): void {
    this.isDown = false;
    this.lastError = undefined;
    this.#isUnready = false;
  }

  onClose(): void {
    this.losses += 1;
    this.isDown = true;
    // A server that accepts connections and stays silent causes no error.
    if (this.#isUnready) this.lastError ??= new Error(NEVER_READY);
    this.#isUnready = true;
  }

  /** Returns the text of the error, or null when it repeats the previous one: in an outage, each retry fails alike. */
  onError(error: Error): string | null {
    const before = this.lastError && readableText(this.lastError);
    this.lastError = withoutSecrets(error);
    const text = readableText(this.lastError);
    return text === before ? null : text;
  }
}
