import { LockStoreError } from '../core/lock.errors.js';
import { messageOf } from '../core/reporter.js';

/** The parts of a Node response that we use. With fastify, it is the `raw` one. */
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

/** A reader that takes nothing during this number of messages is dropped. The page reconnects by itself. */
const MAX_MISSED = 5;

/** How long a stream lasts. The guard checks the next one, so a reader cannot continue long after the end of its session. */
const MAX_AGE_MS = 60_000;

/** The chunk size of a message: the response copies each chunk. */
const CHUNK_BYTES = 16_384;

/** One server-sent event, encoded once for all pages. JSON contains no raw line breaks. */
export const eventText = (name: string, data: object): Buffer =>
  Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);

const AGAIN = eventText('again', {});

/** Sent once per interval, however long Redis takes: a page without messages reports that the app does not answer. */
const ALIVE = eventText('alive', {});

/**
 * A page that listens to server-sent events. A reader slower than the messages misses some, and is dropped when it takes
 * nothing: at most one message is kept for it, which it shares with the other pages.
 */
class PageStream {
  #rest: Buffer | null = null;
  #missed = 0;
  readonly #openedAt = performance.now();

  constructor(private readonly response: RawResponse) {}

  /** Returns whether the reader is still connected. */
  send(message: Buffer): boolean {
    if (this.response.writableEnded || this.response.destroyed) return false;
    if (performance.now() - this.#openedAt >= MAX_AGE_MS) {
      this.end(AGAIN);
      return false;
    }
    if (this.#rest) this.#missed += message === ALIVE ? 0 : 1;
    else this.#write(message);
    if (this.#missed < MAX_MISSED) return true;
    this.response.destroy();
    return false;
  }

  /** A stuck reader would prevent the server of the app from closing. */
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

/** After a slow poll, the pause is longer by this factor, so that the board never keeps Redis busy. */
const PAUSE_PER_POLL = 4;

/** Polls one thing while pages read it, once for all of them, and sends them the result. */
class Feed {
  readonly #readers = new Set<PageStream>();
  #timer: NodeJS.Timeout | undefined;
  #beat: NodeJS.Timeout | undefined;
  #isAsking = false;
  #last: Buffer | undefined;

  /** `onIdle` is called when the last reader has gone. */
  constructor(
    private readonly refreshMs: number,
    private readonly read: () => Promise<object>,
    private readonly onIdle: () => void,
  ) {}

  get size(): number {
    return this.#readers.size;
  }

  add(reader: PageStream): void {
    this.#readers.add(reader);
    this.#beat ??= setInterval(() => this.#tellAll(ALIVE), this.refreshMs);
    if (this.#last !== undefined) this.#tell(reader, this.#last);
    if (!this.#isAsking && this.#timer === undefined) void this.#ask();
  }

  remove(reader: PageStream): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0 || this.#isAsking) return;
    this.#stop();
    this.onIdle();
  }

  close(): void {
    this.#stop();
    for (const reader of this.#readers) reader.end();
    this.#readers.clear();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    this.#timer = undefined;
    const startedAt = performance.now();
    const message = await this.#message();
    this.#tellAll(message);
    this.#isAsking = false;
    this.#last = message;
    if (this.#readers.size === 0) {
      this.#stop();
      return this.onIdle();
    }
    const pauseMs = Math.max(this.refreshMs, PAUSE_PER_POLL * (performance.now() - startedAt));
    this.#timer = setTimeout(() => void this.#ask(), pauseMs);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#beat);
    this.#beat = undefined;
  }

  #tellAll(message: Buffer): void {
    for (const reader of this.#readers) this.#tell(reader, message);
  }

  #tell(reader: PageStream, message: Buffer): void {
    if (!reader.send(message)) this.remove(reader);
  }

  async #message(): Promise<Buffer> {
    try {
      return eventText('state', await this.read());
    } catch (error) {
      return eventText('failed', {
        error: messageOf(error),
        isAway: error instanceof LockStoreError && error.retryable,
      });
    }
  }
}

const MAX_PAGES = 100;

/** The feeds of a board by their topic. Only topics with readers are polled. */
export class Feeds {
  readonly #feeds = new Map<string, Feed>();
  #isClosed = false;

  constructor(private readonly refreshMs: number) {}

  get isOpen(): boolean {
    return !this.#isClosed && this.#pages < MAX_PAGES;
  }

  /** Sends a topic to a page until the page goes away. `head` is sent first. */
  connect(response: RawResponse, topic: string, read: () => Promise<object>, head: Buffer): void {
    const feed = this.#feedOf(topic, read);
    const page = new PageStream(response);
    response.on('close', () => feed.remove(page));
    response.on('error', () => feed.remove(page));
    page.send(head);
    feed.add(page);
  }

  close(): void {
    this.#isClosed = true;
    for (const feed of this.#feeds.values()) feed.close();
    this.#feeds.clear();
  }

  get #pages(): number {
    return [...this.#feeds.values()].reduce((sum, { size }) => sum + size, 0);
  }

  #feedOf(topic: string, read: () => Promise<object>): Feed {
    const known = this.#feeds.get(topic);
    if (known) return known;
    const feed = new Feed(this.refreshMs, read, () => this.#feeds.delete(topic));
    this.#feeds.set(topic, feed);
    return feed;
  }
}
