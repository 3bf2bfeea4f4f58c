/** The parts of a response of Node that we use. With fastify, it is the `raw` one. */
export interface RawResponse {
  readonly writableEnded: boolean;
  readonly destroyed: boolean;
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): unknown;
  write(data: Uint8Array): boolean;
  end(data?: string | Uint8Array): unknown;
  destroy(): unknown;
  on(event: 'close' | 'error', listener: () => void): unknown;
  once(event: 'drain', listener: () => void): unknown;
}

/** After so many messages during which a reader took nothing, it is dropped. The page connects again by itself. */
const MAX_MISSED = 5;

/** How long a stream lasts: the guard is asked again for the next one, so that nobody reads on for long after the end of a session. */
const MAX_AGE_MS = 60_000;

/** How much of a message is given to the response at a time, which copies it. */
const CHUNK_BYTES = 16_384;

/** One server-sent event, encoded once for all pages. JSON has no line breaks of its own. */
export const eventText = (name: string, data: object): Buffer =>
  Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);

/** Has the page connect again at once. */
const AGAIN = eventText('again', {});

/**
 * A page that listens to server-sent events. A reader that is slower than the messages misses some, and is dropped when it takes
 * nothing: never is more than one message kept for it, which it shares with the other pages.
 */
export class PageStream {
  #rest: Buffer | null = null;
  #missed = 0;
  readonly #openedAt = performance.now();

  constructor(private readonly response: RawResponse) {}

  /** Returns whether the reader is still there. */
  send(message: Buffer): boolean {
    if (this.response.writableEnded || this.response.destroyed) return false;
    if (performance.now() - this.#openedAt >= MAX_AGE_MS) {
      this.end(AGAIN);
      return false;
    }
    if (this.#rest) this.#missed += 1;
    else this.#write(message);
    if (this.#missed < MAX_MISSED) return true;
    this.response.destroy();
    return false;
  }

  /** A reader that does not read would keep the server of the app from closing. */
  end(last?: Buffer): void {
    if (this.#rest) this.response.destroy();
    else this.response.end(last);
  }

  /** `#rest` is null when the reader has taken everything. */
  #write(message: Buffer): void {
    this.#rest = message;
    while (this.#rest.length > 0) {
      const takesMore = this.response.write(this.#rest.subarray(0, CHUNK_BYTES));
      this.#rest = this.#rest.subarray(CHUNK_BYTES);
      if (!takesMore) return void this.response.once('drain', this.#onDrain);
    }
    this.#rest = null;
  }

  readonly #onDrain = (): void => {
    this.#missed = 0;
    this.#write(this.#rest!);
  };
}
