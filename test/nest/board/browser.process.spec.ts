import { type Browser, type Locator } from 'playwright-core';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll } from '../../support/apps/lock-app.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { startBrowser, visit } from '../../support/processes/browser.js';
import { HOSTILE_KEYS } from './hostile-keys.js';

/** What an instance reports: the address of its board, or what became of a lock. */
interface BoardReport {
  readonly kind: 'ready' | 'acquired' | 'lost';
  readonly url?: string;
  readonly key?: string;
  readonly reason?: string;
}

/** An instance of an app with a board, in its own process. */
interface BoardApp {
  readonly url: string;
  readonly pid: number;
  /** Asks for a lock, and keeps it. */
  acquire(key: string, note?: string): void;
  /** Resolves with what it reports of a lock. */
  told(kind: BoardReport['kind'], key?: string): Promise<BoardReport>;
  /** Sends SIGKILL, so that its locks stay until their leases are over. */
  kill(): void;
}

/** Starts an instance; it is killed with the test. */
async function startBoardApp(connection: string, leaseMs: number): Promise<BoardApp> {
  await buildPackage();
  const { child } = forkScript('board-process.mjs', JSON.stringify({ connection, leaseMs }));
  const reports: BoardReport[] = [];
  child.on('message', (report: BoardReport) => reports.push(report));
  const told: BoardApp['told'] = (kind, key) =>
    eventually(() => reports.find((report) => report.kind === kind && report.key === key), { timeoutMs: 120_000 });
  const { url } = await told('ready');
  return {
    url: url!,
    pid: child.pid!,
    acquire: (key, note) => child.send({ key, note }),
    told,
    kill: () => child.kill('SIGKILL'),
  };
}

/** A browser, and instances of an app on their own Redis. The first one serves the page. */
async function start(count: number, leaseMs: number): Promise<{ browser: Browser; apps: BoardApp[] }> {
  const { url } = await ownRedis();
  const starts = Array.from({ length: count }, () => startBoardApp(url, leaseMs));
  const [browser, ...apps] = await Promise.all([startBrowser(), ...starts]);
  return { browser, apps };
}

// The first run on a machine may install the browser.
const LIMIT_MS = 360_000;

describe('the page of the board, in Chromium', () => {
  afterEach(closeAll);

  it(
    'shows a lock move from a killed instance to the next one, which can be made to give it up',
    async () => {
      const { browser, apps } = await start(3, 6_000);
      const [viewer, first, second] = apps as [BoardApp, BoardApp, BoardApp];
      first.acquire('order:7');
      await first.told('acquired', 'order:7');
      const { page, troubles } = await visit(browser, viewer.url);
      const row = page.getByRole('row').filter({ hasText: 'order:7' });
      await row.getByText(`:${first.pid}`).waitFor();
      second.acquire('order:7');
      await page.getByText('1 call waits').waitFor();
      first.kill();
      await row.getByText(`:${second.pid}`).waitFor();
      expect(await row.textContent()).not.toContain(`:${first.pid}`);

      await row.getByRole('link', { name: 'order:7' }).press('Enter');
      await page.getByRole('heading', { name: 'order:7' }).waitFor();
      expect(page.url()).toMatch(/#\/lock\/order%3A7$/);
      const release = page.getByRole('button', { name: 'Force release' }).first();
      await release.press('Enter');
      await page.keyboard.press('Escape');
      await release.press('Enter');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.getByText('This lock is not held now.').waitFor();
      expect(await second.told('lost', 'order:7')).toMatchObject({ reason: 'revoked' });

      const past = page.getByRole('region', { name: 'History' }).getByRole('row');
      const entryOf = (...texts: string[]): Locator =>
        texts.reduce((rows, hasText) => rows.filter({ hasText }), past).first();
      await entryOf('forced', `:${viewer.pid}`, 'by ada').waitFor();
      await entryOf('lost', `:${second.pid}`, 'revoked').waitFor();
      await entryOf('waited', `:${second.pid}`, `held by`, `:${first.pid}`).waitFor();
      await page.getByRole('link', { name: 'Losses' }).press('Enter');
      await page.getByText('The losses of all instances').waitFor();
      await page.getByRole('row').filter({ hasText: 'order:7' }).getByText(`:${second.pid}`).waitFor();
      await page.getByRole('link', { name: 'History' }).press('Enter');
      await page.getByLabel('Show keys with').fill('order:7');
      await entryOf('order:7', 'by ada').waitFor();
      await page.getByLabel('Show keys with').fill('order:8');
      await page.getByText('Nothing matches the search.').waitFor();
      expect(troubles).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    'shows hostile keys as text, and runs nothing of them',
    async () => {
      const { browser, apps } = await start(1, 120_000);
      const [viewer] = apps as [BoardApp];
      const keys = HOSTILE_KEYS.map(([, key]) => key);
      // A note has at most 256 bytes.
      for (const key of keys) viewer.acquire(key, key.slice(0, 200));
      for (const key of keys) await viewer.told('acquired', key);
      const { page, troubles, requests } = await visit(browser, viewer.url);
      await page.getByText(`${keys.length} locks are held`).waitFor();
      const shown = await page.getByRole('rowheader').allTextContents();
      expect(shown).toContain('<img src=x onerror="alert(1)">');
      expect(shown).toContain('order:\\u{202e}gnp.exe\\u{2066}');
      expect(shown).toContain('order:7\\u{a0}\\u{2800}\\u{fe0f}\\u{20}');
      expect(await page.locator('main :is(img, svg, script)').count()).toBe(0);
      for (const key of keys) {
        await page.goto(`${viewer.url}#/lock/${encodeURIComponent(key)}`);
        await page.getByText('held for writing').waitFor();
        await page.getByRole('region', { name: 'History' }).getByText('acquired').waitFor();
      }
      await page.goto(`${viewer.url}#/history`);
      await page.getByRole('cell', { name: '<img src=x onerror="alert(1)">' }).nth(1).waitFor();
      expect(await page.locator('main :is(img, svg, script, b)').count()).toBe(0);
      for (const view of ['waits', 'blocking', 'instances', 'jobs', 'losses', 'history']) {
        await page.goto(`${viewer.url}#/${view}`);
        await page.getByText('Updated at').waitFor();
      }
      expect(troubles).toEqual([]);
      expect(requests.filter((url) => !url.startsWith(viewer.url) && !url.startsWith('data:'))).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    'says that Redis cannot be asked, and not that nothing has happened, when it opens meanwhile',
    async () => {
      const proxy = await proxyTo((await ownRedis()).url);
      const [browser, viewer] = await Promise.all([startBrowser(), startBoardApp(proxy.url, 6_000)]);
      disconnect(proxy);
      const { page } = await visit(browser, `${viewer.url}#/history`);
      for (const view of ['history', 'losses', '', 'lock/order']) {
        await page.goto(`${viewer.url}#/${view}`);
        await page.getByText('Redis cannot be reached.').waitFor();
        expect(await page.locator('main .notice').filter({ visible: true }).allTextContents()).toEqual([]);
      }
      proxy.refuse(false);
      await page.goto(`${viewer.url}#/history`);
      await page.getByText('The history has no entries yet.').waitFor();
    },
    LIMIT_MS,
  );
});
