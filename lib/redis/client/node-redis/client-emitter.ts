import { EventEmitter } from 'node:events';
import { lostError } from '../connection-errors.js';
import { type ClientEvents } from '../redis-client.js';

/** The listeners of a client. */
export class ClientEmitter {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  #count = 0;

  /** `onChange` is called when the first listener comes and when the last one has gone. */
  constructor(private readonly onChange: (isHeard: boolean) => void = () => undefined) {}

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    const heard = listener as (...args: unknown[]) => void;
    this.#emitter.on(event, heard);
    this.#count += 1;
    if (this.#count === 1) this.onChange(true);
    let isRemoved = false;
    return () => {
      if (isRemoved) return;
      isRemoved = true;
      this.#emitter.off(event, heard);
      this.#count -= 1;
      if (this.#count === 0) this.onChange(false);
    };
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    const remove = this.on(event, () => {
      remove();
      listener();
    });
    return remove;
  }

  emit<E extends keyof ClientEvents>(event: E, ...args: ClientEvents[E]): void {
    // Without a listener, an emitter throws its errors.
    if (this.#emitter.listenerCount(event) > 0) this.#emitter.emit(event, ...args);
  }

  /** Resolves when a connection that begins now is ready; rejects when it fails. */
  untilReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      let lastError: Error | undefined;
      const settle = (settleBy: () => void): void => {
        for (const stop of stops) stop();
        settleBy();
      };
      const fail = (): void => settle(() => reject(lastError ?? lostError()));
      const stops = [
        this.on('error', (error) => (lastError = error)),
        this.on('ready', () => settle(resolve)),
        this.on('closed', fail),
        this.on('ended', fail),
      ];
    });
  }
}
