import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import axe from 'axe-core';
import { type Page } from 'playwright-core';
import { eventText } from '../../../lib/board/live.js';
import { pageText, STYLE } from '../../../lib/board/page/page.js';
import { SCRIPT } from '../../../lib/board/page/script.js';
import { closeAll, closeLater } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';
import { eventually } from '../../support/waiting/eventually.js';
import { startBrowser, visit } from '../../support/processes/browser.js';

/** The page of a board without an app: it shows the states that a test sends. */
interface FakeBoard {
  readonly url: string;
  /** Sends an event to the page, as soon as it asks for the view: `waits` for the list of the waiters. */
  readonly tell: (name: 'state' | 'failed' | 'again' | 'alive', data: object, view?: string) => Promise<void>;
  /** The questions of the streams so far. */
  readonly asked: URLSearchParams[];
  /** What the buttons of the page have sent. */
  readonly actions: unknown[];
  /** Keeps all requests waiting, as a process does that has stopped. */
  readonly freeze: (is: boolean) => void;
  /** How many streams are open, and how many were. */
  readonly streams: () => { readonly open: number; readonly all: number };
}

const FILES: Readonly<Record<string, readonly [string, string]>> = {
  '/locks': ['text/html', pageText('locks/')],
  '/locks/board.js': ['text/javascript', SCRIPT],
  '/locks/board.css': ['text/css', STYLE],
};

/** Starts it; it ends with the test. */
async function startFakeBoard(refreshMs: number): Promise<FakeBoard> {
  /** With the view that each is for. */
  const streams = new Map<ServerResponse, string | null>();
  let all = 0;
  const [asked, actions]: [URLSearchParams[], unknown[]] = [[], []];
  let frozen = gate();
  frozen.open();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    await frozen.opened;
    const { url = '' } = request;
    if (request.method === 'POST') {
      actions.push(JSON.parse(Buffer.concat(await request.toArray()).toString()));
      response.writeHead(409, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: 'Another caller holds this lock by now.' }));
      return;
    }
    const [type, text] = FILES[url] ?? ['text/event-stream', undefined];
    response.writeHead(200, { 'content-type': `${type}; charset=utf-8` });
    if (text !== undefined) {
      response.end(text);
      return;
    }
    all += 1;
    const { searchParams } = new URL(url, 'http://board');
    asked.push(searchParams);
    // Two views ask for locks, and the stream of one may still be open when the page shows the other.
    streams.set(response, searchParams.get('mode') === 'waited' ? 'waits' : searchParams.get('view'));
    response.on('close', () => streams.delete(response));
    response.write(eventText('board', { connection: null, refreshMs, canForceRelease: true, canRunNow: true }));
  };
  const server = createServer((request, response) => void serve(request, response));
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
    asked,
    actions,
    freeze: (is) => {
      if (is) frozen = gate();
      else frozen.open();
    },
    streams: () => ({ open: streams.size, all }),
  };
}

/** A holder as the page gets it. */
const holderView = (attempt: string, facts: object = {}): object => ({
  attempt,
  owner: '',
  take: 1,
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
  owner: '',
  take: 1,
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

/** The answer with these locks, which are all unless the facts say otherwise. */
const listOf = (locks: readonly object[], facts: object = {}): object => {
  const waiting = (locks as { waiters: number }[]).reduce((sum, { waiters }) => sum + waiters, 0);
  const counts = { total: locks.length, held: locks.length, waiting, hasMore: false, limit: 10_000 };
  return { locks, next: null, ...counts, ...facts };
};

/** The answer with these entries of a history. */
const historyOf = (entries: readonly object[], facts: object = {}): object => ({
  history: { entries, limit: 200, searched: null, older: null, ...facts },
});

const entryView = (id: string, facts: object = {}): object => ({
  id,
  at: Date.UTC(2026, 0, 2, 3, 4, 5),
  event: 'lost',
  key: 'order:7',
  instance: 'host:7',
  where: 'Orders.charge',
  note: '',
  mode: 'write',
  ms: 1_000,
  reason: 'expired',
  by: '',
  token: '12',
  count: null,
  ...facts,
});

// The first run on a machine may install the browser.
const LIMIT_MS = 360_000;

/** So long that a page never takes a stall of the machine for that of the app. */
const PATIENT_MS = 600_000;

interface Shown extends FakeBoard {
  readonly page: Page;
  /** Resolves when the page shows this text. */
  readonly shows: (text: string | RegExp) => Promise<void>;
}

/** Opens a view of a board. */
async function open(view = '', options: Parameters<typeof visit>[2] = {}, refreshMs = PATIENT_MS): Promise<Shown> {
  const [browser, board] = await Promise.all([startBrowser(), startFakeBoard(refreshMs)]);
  const { page } = await visit(browser, `${board.url}#/${view}`, options);
  const shows = (text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor();
  return { ...board, page, shows };
}

/** What axe finds wrong on the page: the rule and the elements. */
async function findings(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(async () => (globalThis as any).axe.run());
  return violations.map(({ id, nodes }: any) => `${id}: ${nodes.map(({ html }: any) => html).join(' | ')}`);
}

const list = <T>(length: number, make: (name: string) => T): T[] =>
  Array.from({ length }, (_, i) => make(`attempt-${i}`));

const [HOLDERS, QUEUE] = [list(20, (name) => holderView(name)), list(20, (name) => waiterView(name))];
const CUT = lockView('order:7', HOLDERS, QUEUE, { holderCount: 23, queueCount: 21, waiters: 24 });

describe('the page of the board', () => {
  afterEach(closeAll);

  it(
    'shows the numbers of holders, waiters, locks, jobs and losses that it does not list',
    async () => {
      const { page, tell, shows } = await open();
      const many = listOf([CUT, lockView('order:8', [holderView('a')])], { limit: 2, total: 9, hasMore: true });
      await tell('state', many);
      await shows('and 3 more holders');
      await shows('2 of 9 locks are on this page.');
      await shows(
        /At least 2 locks are held, 24 calls wait \(.*count as one\)\. There are more than the 2 locks that were searched/,
      );
      await page.getByRole('link', { name: 'Waiting' }).click();
      await tell('state', many, 'waits');
      await shows('and 1 more');
      await shows('3 calls wait without their own place in the queue');
      expect(await page.getByRole('row').last().textContent()).toContain('and 1 more');

      await page.getByRole('link', { name: 'order:7' }).first().click();
      await tell('state', { lock: CUT, history: null }, 'lock');
      await shows('23 (the first 20 are shown)');
      await shows('24 (calls of one process that hand a lock to each other count as one) (the first 20 are shown)');

      await page.getByRole('link', { name: 'Instances' }).click();
      const instance = { instance: 'host:7', holds: 9, waits: 0, heldMs: 5, waitedMs: 0, keys: ['a'], keyCount: 9 };
      await tell('state', { ...listOf([]), instances: [instance] }, 'instances');
      await shows('and 8 more');
      await page.getByRole('link', { name: 'Jobs' }).click();
      const job = { name: 'Reports.noon', key: 'noon', next: null, nextInMs: null, last: null };
      await tell('state', { jobs: [job], hasMore: true }, 'jobs');
      await shows('There are more than the 1 jobs that are shown.');
      await page.getByRole('link', { name: 'Losses' }).click();
      await tell('state', { ...historyOf([], { limit: 0 }), ofInstance: 'web-1:7' }, 'losses');
      await shows('The losses of the instance web-1:7 only, since it started.');
      await shows('There may be more than the 0 that are shown.');
    },
    LIMIT_MS,
  );

  it(
    'has its search in the address, and asks the app for it',
    async () => {
      const { page, tell, asked, shows } = await open('?q=order&sort=held');
      await eventually(() => asked.length > 0);
      expect(Object.fromEntries(asked[0]!)).toEqual({ view: 'locks', q: 'order', sort: 'held' });
      await tell('state', listOf([lockView('order:7', HOLDERS)], { next: '5 order:7' }));
      expect(await page.getByLabel('Show keys with').inputValue()).toBe('order');
      await page.getByLabel('Instance').fill('web-1');
      await page.waitForURL(/#\/\?q=order&instance=web-1&sort=held$/);
      await eventually(() => asked.at(-1)?.get('instance') === 'web-1');
      await tell('state', listOf([lockView('order:7', HOLDERS)], { next: '5 order:7' }));
      await page.getByRole('link', { name: 'Next page' }).click();
      await eventually(() => asked.at(-1)?.get('after') === '5 order:7');
      await tell('state', listOf([]));
      await shows('Nothing matches the search.');
      await page.getByRole('link', { name: 'First page' }).click();
      await eventually(() => asked.at(-1)?.get('after') === null);
      await page.goBack();
      await eventually(() => asked.at(-1)?.get('after') === '5 order:7');

      await page.getByRole('link', { name: 'Jobs' }).click();
      await page.getByLabel('Sort by').selectOption('failed and lost first');
      await page.waitForURL(/#\/jobs\?sort=outcome$/);
      await eventually(() => asked.at(-1)?.get('view') === 'jobs' && asked.at(-1)?.get('sort') === 'outcome');

      await page.getByRole('link', { name: 'History' }).click();
      await page.getByLabel('Event').selectOption('lost');
      await page.waitForURL(/#\/history\?event=lost$/);
      await eventually(() => asked.at(-1)?.get('event') === 'lost');
      await tell('state', historyOf([entryView('1')], { older: '7 id', searched: 2_000 }), 'history');
      await shows('At most 2000 entries are searched at a time');
      await page.getByRole('link', { name: 'Older entries' }).click();
      await eventually(() => asked.at(-1)?.get('before') === '7 id' && asked.at(-1)?.get('event') === 'lost');
    },
    LIMIT_MS,
  );

  it(
    'shows times in the zone of the reader, with UTC next to them',
    async () => {
      const { page, tell } = await open('history', { timezoneId: 'Asia/Tokyo', locale: 'de-DE' });
      await tell('state', historyOf([entryView('1')]), 'history');
      const cell = page.getByRole('rowheader').first();
      await cell.getByText('2.1.2026, 12:04:05').waitFor();
      await cell.getByText('2026-01-02 03:04:05 UTC').waitFor();
    },
    LIMIT_MS,
  );

  it(
    'shows owners, permits, and who blocks whom as a tree',
    async () => {
      const { page, tell, shows } = await open();
      const permits = { allowed: 3, used: 2, available: 1 };
      await tell(
        'state',
        listOf([lockView('order:7', [holderView('a', { owner: 'job 7', take: 2 })], [], { permits })]),
      );
      await shows('job 7');
      await shows('read, 2 of 3 permits');
      await page.getByRole('link', { name: 'Waiting' }).click();
      await tell(
        'state',
        listOf([lockView('order:7', [holderView('a', { where: '', note: 'by hand' })], [waiterView('w')])]),
        'waits',
      );
      await page.getByRole('cell', { name: 'host:7 by hand', exact: true }).waitFor();
      await page.getByRole('link', { name: 'Blocking' }).click();
      // For so long that the next seconds change nothing of the text.
      const caller = (owner: string) => ({ ...holderView(owner, { owner, heldMs: 90_000_000 }), waitedMs: 5_000 });
      const lock = (key: string, waiters: readonly object[]) => ({
        key,
        isElsewhere: false,
        holders: [caller(`of ${key}`)],
        waiters,
        more: 0,
      });
      const inner = lock('stock', [{ ...caller('last'), holdsUp: [] }]);
      await tell(
        'state',
        { ...listOf([]), roots: [lock('order:7', [{ ...caller('job'), holdsUp: [inner] }])] },
        'blocking',
      );
      const item = page.locator('.tree > li > ul > li > ul > li');
      await item.getByRole('link', { name: 'stock' }).waitFor();
      expect(await item.textContent()).toMatch(/^stock held by host:7 Orders\.charge \(owner of stock\) for 1 d 1 h/);
    },
    LIMIT_MS,
  );

  it(
    'names the holder and the token before it takes a lock away, and the reason when it was not released',
    async () => {
      const { page, tell, actions, shows } = await open('lock/order%3A7');
      await tell('state', { lock: lockView('order:7', [holderView('a')], [], { token: '76' }), history: null }, 'lock');
      await page.getByRole('button', { name: 'Force release' }).click();
      await shows('Held by host:7 Orders.charge with the token 12.');
      await page.getByRole('dialog').getByRole('button', { name: 'Force release' }).click();
      await shows('Not released: Another caller holds this lock by now.');
      expect(actions).toEqual([{ key: 'order:7', token: '76' }]);
    },
    LIMIT_MS,
  );

  it(
    'runs a job by hand after it has asked, and gives the reason when it did not run',
    async () => {
      const { page, tell, actions, shows } = await open('jobs');
      const job = { name: 'Reports.noon', key: 'noon', isOwn: true, next: null, nextInMs: null, last: null };
      await tell('state', { jobs: [job, { ...job, name: 'Elsewhere', isOwn: false }], hasMore: false }, 'jobs');
      await page.getByRole('button', { name: 'Run now' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Run now' }).click();
      await shows('Reports.noon did not run: Another caller holds this lock by now.');
      expect(actions).toEqual([{ name: 'Reports.noon', key: 'noon' }]);
    },
    LIMIT_MS,
  );

  it(
    'notices that the app has stopped while its connection stays open, and connects again',
    async () => {
      const { page, tell, freeze, shows } = await open('', {}, 250);
      await tell('state', listOf([lockView('order:7', HOLDERS)]));
      await shows('order:7');
      freeze(true);
      await shows('The app does not answer.');
      await shows('This page shows what was known at');
      freeze(false);
      await page.getByRole('log').getByText('Connected again.').first().waitFor({ state: 'attached' });
    },
    LIMIT_MS,
  );

  it.each(['light', 'dark'] as const)(
    'has no findings of axe in its %s theme, at any width, and can be used with the keyboard',
    async (colorScheme) => {
      const { page, tell } = await open('', { colorScheme });
      const lock = lockView('order:7', HOLDERS, QUEUE, { permits: { allowed: 30, used: 20, available: 10 } });
      const tree = { key: 'order:7', isElsewhere: false, holders: [holderView('a')], waiters: [], more: 0 };
      const job = { name: 'Reports.noon', key: 'noon', next: 5, nextInMs: 5, last: null };
      const states: [string, string, object][] = [
        ['', 'locks', listOf([lock], { next: '5 order:7' })],
        ['lock/order%3A7', 'lock', { lock, ...historyOf([entryView('1')], { older: '5 a' }) }],
        ['waits', 'waits', listOf([lock])],
        ['blocking', 'blocking', { ...listOf([]), roots: [tree] }],
        ['instances', 'instances', { ...listOf([]), instances: [] }],
        ['jobs', 'jobs', { jobs: [{ ...job, isOwn: true }], hasMore: false }],
        ['losses', 'losses', { ...historyOf([entryView('1')]), ofInstance: null }],
        ['history', 'history', historyOf([entryView('1')])],
      ];
      for (const width of [1_280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        for (const [path, view, state] of states) {
          await page.evaluate(`location.hash = '#/${path}'`);
          await tell('state', state, view);
          await page.getByText('Updated at').waitFor();
          expect([path, width, await findings(page)]).toEqual([path, width, []]);
          expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
        }
      }
      await page.evaluate("location.hash = '#/lock/order%3A7'");
      await tell('state', states[1]![2], 'lock');
      const button = page.getByRole('button', { name: 'Force release' });
      await button.waitFor();
      for (
        let i = 0;
        i < 40 && !(await button.evaluate((one: any) => one === one.ownerDocument.activeElement));
        i += 1
      ) {
        await page.keyboard.press('Tab');
        const width = await page.evaluate('getComputedStyle(document.activeElement).outlineWidth');
        expect(width).toBe('3px');
      }
      await page.keyboard.press('Enter');
      expect(await findings(page)).toEqual([]);
      await page.keyboard.press('Escape');
      expect(await button.evaluate((one: any) => one === one.ownerDocument.activeElement)).toBe(true);
    },
    LIMIT_MS,
  );

  it(
    'says nothing of more where it shows all',
    async () => {
      const { page, tell, shows } = await open();
      await tell('state', listOf([lockView('order:7', HOLDERS, QUEUE)]));
      await shows(
        '1 lock is held, 20 calls wait (calls of one process that hand a lock to each other count as one). Updated',
      );
      for (const [name, view] of [
        ['Held', 'locks'],
        ['Waiting', 'waits'],
      ] as const) {
        await page.getByRole('link', { name, exact: true }).click();
        await tell('state', listOf([lockView('order:7', HOLDERS, QUEUE)]), view);
        await page.getByRole('row').nth(1).waitFor();
        expect(await page.locator('main').textContent()).not.toMatch(/more|at least|without a place/);
      }
    },
    LIMIT_MS,
  );

  it(
    'reports each change to a screen reader, also twice the same, and keeps few of them',
    async () => {
      const { page, tell, shows } = await open();
      const news = page.getByRole('log').locator('p');
      for (let time = 1; time <= 7; time += 1) {
        await tell('failed', { error: `Redis is away, ${time}`, isAway: true });
        await shows(`Redis is away, ${time}`);
        await tell('state', listOf([]));
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
      await tell('state', listOf([]));
      await tell('again', {});
      await eventually(() => streams().all === 2);
      await tell('state', listOf([lockView('order:7', [holderView('a')])]));
      await page.getByText('order:7').waitFor();
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
      await tell('state', listOf([lockView('order:7', [], [waiterView('a', { leftMs: 0 })])]), 'waits');
      await shows('overdue');
    },
    LIMIT_MS,
  );

  it(
    'measures the bar of a lease by the longest that it saw, and keeps a bounded number of them',
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
      // Hours: the bar is read some time after its lease was sent.
      const lasting = (remainingMs: number) => [holderView('first', { remainingMs })];
      const half = lasting(18_000_000);
      await show('token 1', lasting(36_000_000));
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
