// Makes the pictures of the documents: starts the built sample app, uses it in Chromium, and writes docs/pictures.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import { root } from './checks.mjs';
import { ensureChromium } from './programs.mjs';
import { startRedisServer } from './redis.mjs';

const file = (name) => join(root, 'docs', 'pictures', name);
const VIEW = { viewport: { width: 1_100, height: 520 }, deviceScaleFactor: 1.5 };

/** Starts the sample app. Its work takes long enough to be seen. */
function startApp(redisUrl) {
  const env = { ...process.env, REDIS_URL: redisUrl, ORDER_CHARGE_MS: '6000', CATALOGUE_READ_MS: '15000' };
  const stdio = ['ignore', 'pipe', 'inherit'];
  const child = spawn(process.execPath, [join(root, 'sample-app', 'dist', 'run-instances.js')], { env, stdio });
  const url = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [, found] = /Playground: (\S+)/.exec(line) ?? [];
      if (found) resolve(found);
    });
    child.once('exit', () => reject(new Error('The sample app ended. Was it built (`npm run build -w sample-app`)?')));
  });
  return { child, url };
}

async function takePictures(browser, url) {
  const playground = await browser.newPage(VIEW);
  await playground.goto(url);
  await playground.getByText('leads').waitFor();
  await playground.getByText('drew 10 winners').nth(2).waitFor();
  const links = playground.getByRole('link', { name: 'its board' });
  for (const board of await links.evaluateAll((found) => found.map(({ href }) => href)))
    void fetch(new URL('catalogue/tea', board)).catch(() => {});
  const order = playground.getByRole('button', { name: 'Place an order twice' });
  await order.click();
  await order.click();
  for (const colorScheme of ['light', 'dark']) {
    const board = await browser.newPage({ ...VIEW, colorScheme });
    await board.goto(`${url}locks`);
    for (const key of ['order:1', 'order:2', 'catalogue'])
      await board.getByRole('row').filter({ hasText: key }).first().waitFor();
    await board.screenshot({ path: file(`board-${colorScheme}.png`) });
    if (colorScheme === 'dark') continue;
    await board.getByRole('link', { name: 'order:1' }).click();
    await board.getByRole('heading', { name: 'order:1' }).waitFor();
    await board.getByText('OrdersService.charge').nth(1).waitFor();
    await board.getByRole('region', { name: 'History' }).getByText('acquired').waitFor();
    await board.screenshot({ path: file('board-lock.png'), fullPage: true });
  }
  await playground.getByText('charged it after').nth(1).waitFor();
  await playground.screenshot({ path: file('playground.png'), fullPage: true });
}

const redis = await startRedisServer();
const { child, url } = startApp(redis.url);
// Chromium has no sandbox for root.
const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath: ensureChromium(), args });
try {
  await takePictures(browser, await url);
} finally {
  await browser.close();
  if (child.exitCode === null) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  await redis.stop();
}
