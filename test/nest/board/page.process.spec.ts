import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { type Page } from 'playwright-core';
import { eventText } from '../../../lib/board/live.js';
import { pageText, STYLE } from '../../../lib/board/page/page.js';
import { SCRIPT } from '../../../lib/board/page/script.js';
import { closeAll, closeLater } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { startBrowser, visit } from '../../support/processes/browser.js';

/** The page of a board without an app: it shows the states that a test tells it. */
interface FakeBoard {
  readonly url: string;
  /** Sends an event to the page, as soon as it shows the view. */
  readonly tell: (
    name: 'state' | 'failed' | 'again',
    data: object,
    view?: 'locks' | 'lock' | 'jobs' | 'losses',
  ) => Promise<void>;
  /** How many streams are open, and how many were. */
  readonly streams: () => { readonly open: number; readonly all: number };
}

const FILES: Readonly<Record<string, readonly [string, string]>> = {
  '/locks': ['text/html', pageText('locks/')],
  '/locks/board.js': ['text/javascript', SCRIPT],
  '/locks/board.css': ['text/css', STYLE],
};

/** Starts it; it ends with the test. */
async function startFakeBoard(): Promise<FakeBoard> {
  /** With the view that each is for. */
  const streams = new Map<ServerResponse, string | null>();
  let all = 0;
  const server = createServer(({ url = '' }, response) => {
    const [type, text] = FILES[url] ?? ['text/event-stream', undefined];
    response.writeHead(200, { 'content-type': `${type}; charset=utf-8` });
    if (text !== undefined) {
      response.end(text);
      return;
    }
    all += 1;
    streams.set(response, new URL(url, 'http://board').searchParams.get('view'));
    response.on('close', () => streams.delete(response));
    response.write(eventText('board', { connection: null, refreshMs: 250, canForceRelease: true }));
  });
  closeLater({ close: async () => server.close().closeAllConnections() });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/locks`,
    tell: async (name, data, view = 'locks') => {
      // The stream of the view before may still be open.
      const [stream] = await eventually(() => [...streams].findLast(([, of]) => of === view));
      stream.write(eventText(name, data));
      if (name === 'again') stream.end();
    },
    streams: () => ({ open: streams.size, all }),
  };
}

/** A holder as the page gets it. */
const holderView = (attempt: string, facts: object = {}): object => ({
  attempt,
  instance: 'host:7',
  where: 'Orders.charge',
  note: '',
  mode: 'read',
  since: 0,
  heldMs: 1_000,
  remainingMs: 30_000,
  token: '12',
  ...facts,
});

/** A waiter as the page gets it. */
const waiterView = (attempt: string, facts: object = {}): object => ({
  attempt,
  instance: 'host:8',
  where: 'Orders.charge',
  note: '',
  mode: 'write',
  place: 1,
  waitedMs: 5_000,
  leftMs: null,
  ...facts,
});

/** A lock as the page gets it, with all of its holders and waiters unless the facts say otherwise. */
function lockView(key: string, holders: readonly object[], queue: readonly object[] = [], facts = {}): object {
  const counts = { holderCount: holders.length, queueCount: queue.length, waiters: queue.length };
  return { key, mode: 'read', token: '12', permits: null, ...counts, holders, queue, ...facts };
}

// The first run on a machine may install the browser.
const LIMIT_MS = 360_000;

interface Shown extends FakeBoard {
  readonly page: Page;
  /** Resolves when the page shows this text. */
  readonly shows: (text: string | RegExp) => Promise<void>;
}

/** Opens a view of a board. */
async function open(view = ''): Promise<Shown> {
  const [browser, board] = await Promise.all([startBrowser(), startFakeBoard()]);
  const { page } = await visit(browser, `${board.url}#/${view}`);
  const shows = (text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor({ timeout: 20_000 });
  return { ...board, page, shows };
}

const list = <T>(length: number, make: (name: string) => T): T[] =>
  Array.from({ length }, (_, i) => make(`attempt-${i}`));

const [HOLDERS, QUEUE] = [list(20, (name) => holderView(name)), list(20, (name) => waiterView(name))];
const CUT = lockView('order:7', HOLDERS, QUEUE, { holderCount: 23, queueCount: 21, waiters: 24 });

describe('the page of the board', () => {
  afterEach(closeAll);

  it(
    'says how many holders, waiters, locks, jobs and losses it does not show',
    async () => {
      const { page, tell, shows } = await open();
      const many = { locks: [CUT, lockView('order:8', [holderView('a')])], limit: 2, hasMore: true };
      await tell('state', many);
      await shows('and 3 more holders');
      await shows(/At least 2 locks are held, 24 calls wait\. There are more than the 2 locks/);
      await page.getByRole('link', { name: 'Waiting' }).click();
      await shows('and 1 more');
      await shows('3 calls wait without a place of their own in the queue');
      expect(await page.getByRole('row').last().textContent()).toContain('and 1 more');
      await page.getByRole('link', { name: 'Instances' }).click();
      await shows('There are 4 more holders and waiters');

      await page.getByRole('link', { name: 'order:7' }).first().click();
      await tell('state', { lock: CUT, history: null }, 'lock');
      await shows('23 (the first 20 are shown)');
      await shows('24 (the first 20 are shown)');

      await page.getByRole('link', { name: 'Jobs' }).click();
      const job = { name: 'Reports.noon', key: 'noon', next: null, nextInMs: null, last: null };
      await tell('state', { jobs: [job], hasMore: true }, 'jobs');
      await shows('There are more than the 1 jobs that are shown.');
      await page.getByRole('link', { name: 'Losses' }).click();
      await tell('state', { losses: [], limit: 0, searched: null }, 'losses');
      await shows('There may be more than the last 0, which are shown.');
    },
    LIMIT_MS,
  );

  it(
    'says nothing of more where it shows all',
    async () => {
      const { page, tell, shows } = await open();
      await tell('state', { locks: [lockView('order:7', HOLDERS, QUEUE)], limit: 500, hasMore: false });
      await shows('1 lock is held, 20 calls wait. Updated');
      for (const view of ['Held', 'Waiting', 'Instances']) {
        await page.getByRole('link', { name: view, exact: true }).click();
        await page.getByRole('row').nth(1).waitFor();
        expect(await page.locator('main').textContent()).not.toMatch(/more|at least|without a place/);
      }
    },
    LIMIT_MS,
  );

  it(
    'tells a screen reader each time what has happened, also twice the same, and keeps little of it',
    async () => {
      const { page, tell, shows } = await open();
      const news = page.getByRole('log').locator('p');
      for (let time = 1; time <= 7; time += 1) {
        await tell('failed', { error: `Redis is away, ${time}`, isAway: true });
        await shows(`Redis is away, ${time}`);
        await tell('state', { locks: [], limit: 500, hasMore: false });
        await page.locator('#banner').waitFor({ state: 'hidden' });
        expect(await news.allTextContents()).toEqual(list(Math.min(time, 5), () => 'Redis answers again.'));
      }
    },
    LIMIT_MS,
  );

  it(
    'connects again when the app has ended its stream, and calls that no failure',
    async () => {
      const { page, tell, streams } = await open();
      await tell('state', { locks: [], limit: 500, hasMore: false });
      await tell('again', {});
      await eventually(() => streams().all === 2);
      await tell('state', { locks: [lockView('order:7', [holderView('a')])], limit: 500, hasMore: false });
      await page.getByText('order:7').waitFor({ timeout: 20_000 });
      expect(await page.locator('#news').textContent()).toBe('');
      expect(await page.locator('#banner').isHidden()).toBe(true);
    },
    LIMIT_MS,
  );

  it(
    'closes its stream while the tab is hidden: a browser has six connections for all tabs',
    async () => {
      const { url, page, streams } = await open();
      const hidden = (is: boolean) => `Object.defineProperty(document, 'hidden', { value: ${is}, configurable: true })`;
      const change = (is: boolean) =>
        page.evaluate(`${hidden(is)}; document.dispatchEvent(new Event('visibilitychange'))`);
      await eventually(() => streams().open === 1);
      await change(true);
      await eventually(() => streams().open === 0);
      await change(false);
      await eventually(() => streams().open === 1);
      await change(true);
      const context = await page.context().browser()!.newContext();
      for (let i = 0; i < 6; i += 1) {
        const other = await context.newPage();
        await other.addInitScript(hidden(true));
        await other.goto(url);
      }
      const seventh = await context.newPage();
      await seventh.goto(url, { timeout: 60_000 });
      await eventually(() => streams().open === 1);
    },
    LIMIT_MS,
  );

  it(
    'says of a waiter whose limit is past that it is overdue',
    async () => {
      const { tell, shows } = await open('waits');
      await tell('state', { locks: [lockView('order:7', [], [waiterView('a', { leftMs: 0 })])], hasMore: false });
      await shows('overdue');
    },
    LIMIT_MS,
  );

  it(
    'measures the bar of a lease by the longest that it saw, and keeps only so many in days of one view',
    async () => {
      const { page, tell, shows } = await open('lock/order%3A7');
      const show = async (token: string, holders: readonly object[]): Promise<number> => {
        await tell('state', { lock: lockView('order:7', holders, [], { token }), history: null }, 'lock');
        await shows(token);
        return page
          .getByRole('progressbar', { includeHidden: true })
          .first()
          .evaluate((bar: any) => bar.value);
      };
      const half = [holderView('first', { remainingMs: 15_000 })];
      await show('token 1', [holderView('first')]);
      await show(
        'token 2',
        list(1_000, (name) => holderView(`few ${name}`)),
      );
      expect(await show('token 3', half)).toBeLessThan(0.6);
      for (let i = 0; i < 11; i += 1)
        await show(
          `round ${i} of many`,
          list(1_000, (name) => holderView(`${i} ${name}`)),
        );
      expect(await show('token 4', half)).toBeGreaterThan(0.9);
    },
    LIMIT_MS,
  );
});
