import { Feed } from './feed.js';
import { PageStream, type RawResponse } from './page-stream.js';

/** How many pages of one process may be open at once. */
const MAX_PAGES = 100;

/** The feeds of a board by their topic. Nothing is asked for that nobody reads. */
export class Feeds {
  readonly #feeds = new Map<string, Feed>();
  #isClosed = false;

  constructor(private readonly refreshMs: number) {}

  /** Whether a page can be opened now. */
  get isOpen(): boolean {
    return !this.#isClosed && this.#pages < MAX_PAGES;
  }

  /** Tells a page about a topic until it goes away. `head` is what it is told first. */
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
    const feed = new Feed({ refreshMs: this.refreshMs, read, onIdle: () => this.#feeds.delete(topic) });
    this.#feeds.set(topic, feed);
    return feed;
  }
}
