/** The parts of a response of Node that we use. With fastify, it is the `raw` one. */
export interface RawResponse {
  readonly writableEnded: boolean;
  readonly destroyed: boolean;
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): unknown;
  write(text: string): boolean;
  end(text?: string): unknown;
  destroy(): unknown;
  on(event: 'close' | 'error', listener: () => void): unknown;
  once(event: 'drain', listener: () => void): unknown;
}

/** After so many messages that a reader could not take, it is dropped. The page connects again by itself. */
const MAX_MISSED = 5;

/**
 * A page that listens to server-sent events. A reader that is slower than the messages misses some, and is dropped when it misses
 * many: never is more than one message kept for it.
 */
export class PageStream {
  #isFull = false;
  #missed = 0;

  constructor(private readonly response: RawResponse) {}

  /** Returns whether the reader is still there. */
  send(message: string): boolean {
    if (this.response.writableEnded || this.response.destroyed) return false;
    if (this.#isFull) this.#missed += 1;
    else this.#write(message);
    if (this.#missed < MAX_MISSED) return true;
    this.response.destroy();
    return false;
  }

  /** A reader that does not read would keep the server of the app from closing. */
  end(): void {
    if (this.#isFull) this.response.destroy();
    else this.response.end();
  }

  #write(message: string): void {
    this.#missed = 0;
    this.#isFull = !this.response.write(message);
    if (this.#isFull) this.response.once('drain', () => (this.#isFull = false));
  }
}

/** One server-sent event. JSON has no line breaks of its own. */
export const eventText = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
