import { Feeds, type RawResponse } from '../../../lib/board/live.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';

/** A response whose reader takes what is written, unless the test stops it. */
class FakeResponse implements RawResponse {
  readonly written: string[] = [];
  takes = true;
  writableEnded = false;
  destroyed = false;
  #listeners = new Map<string, () => void>();

  writeHead(): void {}

  write(data: Uint8Array): boolean {
    this.written.push(Buffer.from(data).toString());
    return this.takes;
  }

  end(data?: Uint8Array | string): void {
    if (data !== undefined) this.write(data as Uint8Array);
    this.writableEnded = true;
    this.#listeners.get('close')?.();
  }

  destroy(): void {
    this.destroyed = true;
    this.#listeners.get('close')?.();
  }

  on(event: string, listener: () => void): void {
    this.#listeners.set(event, listener);
  }

  once(event: string, listener: () => void): void {
    this.#listeners.set(event, listener);
  }

  drain(): void {
    this.takes = true;
    this.#listeners.get('drain')!();
  }

  /** Takes what was written, but not what is written next. */
  drainOnce(): void {
    this.#listeners.get('drain')!();
  }

  get states(): number {
    return this.written.filter((text) => text.startsWith('event: state')).length;
  }
}

const REFRESH_MS = 1_000;

function setUp() {
  let asked = 0;
  const read = async (): Promise<object> => ({ asked: ++asked });
  const feeds = new Feeds(REFRESH_MS);
  const open = (topic = 'locks', ask: () => Promise<object> = read): FakeResponse => {
    const response = new FakeResponse();
    feeds.connect(response, topic, ask, Buffer.from('head'));
    return response;
  };
  return { feeds, open, asked: () => asked };
}

const pass = (ms: number): Promise<void> => jest.advanceTimersByTimeAsync(ms);

describe('the feeds of a board', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('ask once per interval, for any number of open pages', async () => {
    const { open, asked } = setUp();
    const pages = Array.from({ length: 10 }, () => open());
    await pass(0);
    await pass(REFRESH_MS);
    await pass(REFRESH_MS);
    expect(asked()).toBe(3);
    expect(pages.map(({ states }) => states)).toEqual(pages.map(() => 3));
    expect(pages[0]!.written[0]).toBe('head');
  });

  it('send a later page the present state, without asking for it', async () => {
    const { open, asked } = setUp();
    open();
    await pass(0);
    const late = open();
    expect([late.states, asked()]).toEqual([1, 1]);
  });

  it('ask for nothing while no page is open, and leave no timer', async () => {
    const { open, asked } = setUp();
    const page = open();
    await pass(0);
    page.destroy();
    await pass(10 * REFRESH_MS);
    expect([asked(), jest.getTimerCount()]).toEqual([1, 0]);
    open();
    await pass(0);
    expect(asked()).toBe(2);
  });

  it('ask less often when the answers are slow', async () => {
    const { open } = setUp();
    let asked = 0;
    open('slow', async () => {
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
      return {};
    });
    await pass(REFRESH_MS);
    await pass(3 * REFRESH_MS);
    expect(asked).toBe(1);
    await pass(2 * REFRESH_MS);
    expect(asked).toBe(2);
  });

  it('report once per interval that the app is alive, also while Redis does not answer', async () => {
    const { open } = setUp();
    const page = open('silent', () => new Promise(() => undefined));
    await pass(3 * REFRESH_MS);
    expect(page.written).toEqual(['head', ...Array.from({ length: 3 }, () => 'event: alive\ndata: {}\n\n')]);
    page.destroy();
  });

  it('report what is wrong, and whether it is Redis, and ask again', async () => {
    const { open } = setUp();
    let isAway = true;
    const page = open('locks', async () => {
      if (isAway) throw new LockStoreError('Redis is away.');
      return {};
    });
    await pass(0);
    expect(page.written.at(-1)).toBe('event: failed\ndata: {"error":"Redis is away.","isAway":true}\n\n');
    isAway = false;
    await pass(REFRESH_MS);
    expect(page.states).toBe(1);
  });

  it('keep one message at most for a slow reader, and drop it when it misses many', async () => {
    const { open } = setUp();
    const [slow, other] = [open(), open()];
    slow.takes = false;
    await pass(0);
    await pass(2 * REFRESH_MS);
    expect(slow.states).toBe(1);
    slow.drain();
    await pass(REFRESH_MS);
    expect(slow.states).toBe(2);
    slow.takes = false;
    const { length } = slow.written;
    await pass(20 * REFRESH_MS);
    expect(slow.destroyed).toBe(true);
    expect(slow.written).toHaveLength(length + 1);
    expect(other.destroyed).toBe(false);
  });

  it('send a small part of a long answer to a page that does not read, and drop it; a page that reads gets all of it', async () => {
    const { open } = setUp();
    const read = async (): Promise<object> => ({ text: 'x'.repeat(4_000_000) });
    const [deaf, slow] = [open('locks', read), open('locks', read)];
    deaf.takes = false;
    slow.takes = false;
    const bytesOf = ({ written }: FakeResponse): number => written.join('').length;
    for (let i = 0; i < 4; i += 1) await pass(REFRESH_MS);
    expect(bytesOf(deaf)).toBeLessThan(64 * 1_024);
    while (bytesOf(slow) < 4_000_000) slow.drainOnce();
    for (let i = 0; i < 4; i += 1) await pass(REFRESH_MS);
    expect([deaf.destroyed, slow.destroyed, slow.states]).toEqual([true, false, 1]);
  });

  it('end each page after a minute; it connects again at once', async () => {
    const { open } = setUp();
    const page = open();
    await pass(59_000);
    expect(page.writableEnded).toBe(false);
    await pass(2 * REFRESH_MS);
    expect([page.writableEnded, page.written.at(-1)]).toEqual([true, 'event: again\ndata: {}\n\n']);
    await pass(10 * REFRESH_MS);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('forget a page that had left before it was connected', async () => {
    const { feeds, asked } = setUp();
    const gone = new FakeResponse();
    gone.destroyed = true;
    feeds.connect(gone, 'locks', async () => ({}), Buffer.from('head'));
    await pass(0);
    await pass(10 * REFRESH_MS);
    expect([gone.written, asked(), jest.getTimerCount()]).toEqual([[], 0, 0]);
  });

  it('accept a limited number of pages, and none after their end', async () => {
    const { feeds, open } = setUp();
    const pages = Array.from({ length: 100 }, (_, i) => open(`lock ${i}`));
    expect(feeds.isOpen).toBe(false);
    pages[0]!.destroy();
    await pass(0);
    expect(feeds.isOpen).toBe(true);
    feeds.close();
    expect(feeds.isOpen).toBe(false);
    expect(pages.slice(1).every(({ writableEnded }) => writableEnded)).toBe(true);
    await pass(0);
    expect(jest.getTimerCount()).toBe(0);
  });
});
