import { type Clock } from '../../core/clock.js';
import { CLOCK_DRIFT } from '../timing.js';

interface Reading {
  readonly micros: number;
  /** When it arrived, on our monotonic clock. */
  readonly at: number;
}

/**
 * The clocks of the servers, as far as known from their replies. An acquire says when it was sent by the clock of its
 * server, so that a copy that arrives much later is refused.
 */
export class ServerClock {
  readonly #readings = new Map<string, Reading>();
  /** The questions for the time that have no answer yet, by time limit and server. */
  readonly #questions = new Map<string, Promise<void>>();

  constructor(private readonly clock: Clock) {}

  knows(server: string): boolean {
    return this.#readings.has(server);
  }

  /** Asks the server for its time in microseconds, unless it is known; simultaneous calls with one time limit share one question. */
  async learn(server: string, timeoutMs: number, ask: () => Promise<number>): Promise<void> {
    if (this.knows(server)) return;
    const name = `${timeoutMs} ${server}`;
    const question = this.#questions.get(name) ?? this.#ask(server, ask).finally(() => this.#questions.delete(name));
    this.#questions.set(name, question);
    await question;
  }

  /** A reply of this server contained its time, in microseconds. */
  onReply(server: string, micros: number): void {
    if (Number.isSafeInteger(micros)) this.#readings.set(server, { micros, at: this.clock.now() });
  }

  /** The latest time of the server that has certainly passed by now, in microseconds; 0: unknown. */
  micros(server: string): number {
    const reading = this.#readings.get(server);
    if (!reading) return 0;
    return reading.micros + Math.floor((this.clock.now() - reading.at) * 1_000 * (1 - CLOCK_DRIFT));
  }

  async #ask(server: string, ask: () => Promise<number>): Promise<void> {
    this.onReply(server, await ask());
  }
}
