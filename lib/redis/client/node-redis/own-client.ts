import { type ClientParts } from '../client-library.js';
import { type ClientEvents, type ClientStatus } from '../redis-client.js';
import { reconnectDelayMs } from '../../timing.js';
import { ClientEmitter } from './client-emitter.js';
import { NodeRedisCommands } from './node-redis-commands.js';

/** What a connection and a cluster of our own have in common: they are opened again and again until they are told to end. */
export abstract class OwnClient extends NodeRedisCommands {
  protected readonly events = new ClientEmitter();
  #status: ClientStatus = 'idle';
  #failures = 0;
  #supervisors = 0;
  #cancelRetry = (): void => undefined;

  constructor(protected readonly parts: ClientParts) {
    super();
  }

  abstract readonly endsForGood: boolean;

  /** Opens it; the state is `connecting`. */
  protected abstract open(): void;
  /** Ends what is open, or is being opened, without a report. */
  protected abstract drop(): void;

  get status(): ClientStatus {
    return this.#status;
  }

  protected get failures(): number {
    return this.#failures;
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.events.on(event, listener);
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.events.once(event, listener);
  }

  connect(): Promise<void> {
    if (this.#status === 'ready') return Promise.resolve();
    const ready = this.events.untilReady();
    if (this.#status === 'idle' || this.#status === 'ended') this.begin();
    return ready;
  }

  disconnect(): void {
    if (this.#status === 'ended') return;
    const wasOpen = this.#status !== 'idle' && this.#status !== 'closed';
    this.#cancelRetry();
    this.#status = 'ended';
    this.drop();
    if (wasOpen) this.events.emit('closed');
    this.events.emit('ended');
  }

  /** Node closes the sockets that were destroyed at the end of a turn of its event loop: after the second one, nothing is left. */
  async close(): Promise<void> {
    this.disconnect();
    // oxlint-disable-next-line eslint/no-restricted-globals -- no clock counts the turns of the event loop
    for (let turn = 1; turn <= 2; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
  }

  /** Sockets have their deadlines anyway. */
  supervise(): () => void {
    this.#supervisors += 1;
    const stopReopening = this.on('ended', () => {
      if (!this.endsForGood) this.retry();
    });
    return () => {
      stopReopening();
      this.#supervisors -= 1;
      if (this.#supervisors === 0 && this.#status === 'ended') this.#cancelRetry();
    };
  }

  protected begin(): void {
    this.#cancelRetry();
    this.#status = 'connecting';
    this.events.emit('connecting');
    this.open();
  }

  protected become(status: 'connected' | 'ready'): void {
    if (status === 'ready') this.#failures = 0;
    this.#status = status;
    this.events.emit(status);
  }

  /** It is over; `isEnd`: for good. */
  protected lose(error: Error | undefined, isEnd = false): void {
    this.#status = isEnd ? 'ended' : 'closed';
    if (error) this.events.emit('error', error);
    this.events.emit('closed');
    if (isEnd) this.events.emit('ended');
    else if (this.#status === 'closed') this.retry();
  }

  /** It could not even begin, so that nothing is lost. */
  protected fail(error: Error): void {
    this.#status = 'closed';
    this.events.emit('error', error);
    if (this.#status === 'closed') this.retry();
  }

  protected retry(): void {
    this.#cancelRetry();
    this.#failures += 1;
    const begin = (): void => {
      if (this.#status === 'closed' || this.#status === 'ended') this.begin();
    };
    this.#cancelRetry = this.parts.clock.setTimer(begin, reconnectDelayMs(this.#failures));
  }
}
