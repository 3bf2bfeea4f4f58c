import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type ServerResponse, createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import process from 'node:process';
import { GROUPS, MOVED } from '../../site/pages.mjs';
import { closeAll, closeLater } from '../support/apps/lock-app.js';
import { startBrowser, visit } from '../support/processes/browser.js';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): Promise<Buffer> => readFile(join(root, 'site', 'dist', path));
const text = async (path: string): Promise<string> => (await read(path)).toString();

const PAGES = GROUPS.flatMap(({ pages }) => pages.map(([file]) => (file === 'README' ? 'all-pages' : file)));
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

async function answer(url: string, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(url, 'http://site');
  const path = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
  const body = await read(path).catch(() => undefined);
  response.writeHead(body ? 200 : 404, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' });
  response.end(body);
}

/** Serves the site until the test ends. */
async function serve(): Promise<string> {
  const server = createServer(({ url }, response) => void answer(url!, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closeLater({ close: async () => server.closeAllConnections() ?? server.close() });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

// The build may install packages, and the browser.
const LIMIT_MS = 1_800_000;

describe('the docs site', () => {
  beforeAll(async () => {
    const build = spawn(process.execPath, [join(root, 'scripts', 'docs-site.mjs')], { stdio: ['ignore', 'ignore', 2] });
    const [status] = await once(build, 'exit');
    expect(status).toBe(0);
  }, LIMIT_MS);
  afterEach(closeAll);

  it('has each page as HTML and as Markdown, and lists it in llms.txt', async () => {
    const list = await text('llms.txt');
    for (const page of [...PAGES, 'api']) {
      const html = await text(page === 'api' ? 'api/index.html' : `${page}.html`);
      expect(html).toContain(`href="/${page}.md"`);
      expect(await text(`${page}.md`)).toMatch(/^# /m);
      expect(list).toContain(`(/${page}.md)`);
    }
    expect(await text('llms-full.txt')).toContain('The lease that `A` counts on begins before it sent the command');
  });

  it('leads from each page that moved to a page', async () => {
    for (const [from, to] of Object.entries(MOVED)) {
      expect(PAGES).toContain(to);
      expect(await text(`${from}.html`)).toContain(`url=${to}.html`);
    }
  });

  it(
    'fits a phone on each page',
    async () => {
      const [browser, url] = await Promise.all([startBrowser(), serve()]);
      for (const page of ['index', 'api/index', ...PAGES]) {
        const opened = await visit(browser, `${url}/${page}.html`, { viewport: { width: 360, height: 700 } });
        const wide = await opened.page.evaluate('document.documentElement.scrollWidth');
        expect({ page, wide, troubles: opened.troubles }).toEqual({ page, wide: 360, troubles: [] });
        await opened.page.close();
      }
    },
    LIMIT_MS,
  );

  it.each(['light', 'dark'] as const)(
    'draws diagrams in the %s theme',
    async (colorScheme) => {
      const [browser, url] = await Promise.all([startBrowser(), serve()]);
      for (const [page, count] of [
        ['in-pictures', 6],
        ['how-it-works', 1],
      ] as const) {
        const opened = await visit(browser, `${url}/${page}.html`, { colorScheme });
        await opened.page
          .locator('.mermaid svg')
          .nth(count - 1)
          .waitFor({ timeout: 120_000 });
        expect(opened.troubles).toEqual([]);
      }
    },
    LIMIT_MS,
  );
});
