import { type Page } from 'playwright-core';
import { closeAll } from '../../support/apps/lock-app.js';
import { startBrowser, visit } from '../../support/processes/browser.js';
import { type FakeBoard, holderView, lockView, startFakeBoard, waiterView } from './fake-board.js';

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
