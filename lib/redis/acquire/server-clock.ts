import { type Clock } from '../../core/clock.js';

/** By how much our clock may run faster than a server's. */
const DRIFT = 0.001;

interface Reading {
  readonly micros: number;
  /** When it arrived, on our monotonic clock. */
  readonly at: number;
}

/**
 * What is known of the clocks of the servers, from their replies. A command says when it was sent, by the clock of its
 * server, so that a copy which arrives much later is refused.
 */
export class ServerClock {
  readonly #readings = new Map<string, Reading>();

  /** Servers that are being asked for their time. */
  readonly #asked = new Map<string, Promise<void>>();

  constructor(private readonly clock: Clock) {}

  /** Has the server asked for its time, unless it is known; those who need it at once share one question. */
  async learn(server: string, ask: () => Promise<readonly (string | number)[]>): Promise<void> {
    if (this.#readings.has(server)) return;
    const asked = this.#asked.get(server) ?? this.#ask(server, ask);
    this.#asked.set(server, asked);
    await asked;
  }

  /** A reply of this server told its time; `micros`: in microseconds. */
  read(server: string, micros: number): void {
    if (Number.isSafeInteger(micros)) this.#readings.set(server, { micros, at: this.clock.now() });
  }

  async #ask(server: string, ask: () => Promise<readonly (string | number)[]>): Promise<void> {
    try {
      const [seconds, micros] = await ask();
      this.read(server, Number(seconds) * 1_000_000 + Number(micros));
    } finally {
      this.#asked.delete(server);
    }
  }

  /** A time of the server that has certainly passed by now, as late as can be proven; 0: none is known. */
  micros(server: string): number {
    const reading = this.#readings.get(server);
    if (!reading) return 0;
    return reading.micros + Math.floor((this.clock.now() - reading.at) * 1_000 * (1 - DRIFT));
  }
}
