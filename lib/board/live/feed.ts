import { LockStoreError } from '../../core/lock.errors.js';
import { messageOf } from '../../core/reporter.js';
import { eventText, type PageStream } from './page-stream.js';

/** A poll that takes long is followed by a pause of this many times as long: the board never keeps a Redis busy. */
const PAUSE_PER_POLL = 4;

/** What a feed needs to know. */
interface FeedOptions {
  readonly refreshMs: number;
  /** Asks for what the pages show. */
  readonly read: () => Promise<object>;
  /** Called when nobody reads any more. */
  readonly onIdle: () => void;
}

/** Asks for one thing again and again while pages read it, once for all of them, and tells them. */
export class Feed {
  readonly #readers = new Set<PageStream>();
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;
  #last: Buffer | undefined;

  constructor(private readonly options: FeedOptions) {}

  get size(): number {
    return this.#readers.size;
  }

  add(reader: PageStream): void {
    this.#readers.add(reader);
    if (this.#last !== undefined) this.#tell(reader, this.#last);
    if (!this.#isAsking && this.#timer === undefined) void this.#ask();
  }

  remove(reader: PageStream): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0 || this.#isAsking) return;
    clearTimeout(this.#timer);
    this.options.onIdle();
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const reader of this.#readers) reader.end();
    this.#readers.clear();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    this.#timer = undefined;
    const startedAt = performance.now();
    const message = await this.#message();
    for (const reader of this.#readers) this.#tell(reader, message);
    this.#isAsking = false;
    this.#last = message;
    if (this.#readers.size === 0) return this.options.onIdle();
    const pauseMs = Math.max(this.options.refreshMs, PAUSE_PER_POLL * (performance.now() - startedAt));
    this.#timer = setTimeout(() => void this.#ask(), pauseMs);
  }

  #tell(reader: PageStream, message: Buffer): void {
    if (!reader.send(message)) this.remove(reader);
  }

  async #message(): Promise<Buffer> {
    try {
      return eventText('state', await this.options.read());
    } catch (error) {
      return eventText('failed', {
        error: messageOf(error),
        isAway: error instanceof LockStoreError && error.retryable,
      });
    }
  }
}
