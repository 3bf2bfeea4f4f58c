import process from 'node:process';
import { type Browser, chromium, type Page } from 'playwright-core';
import { ensureChromium } from '../../../scripts/programs.mjs';
import { closeLater } from '../apps/lock-app.js';

/** A page of the browser, and what it did that a reader of the board must never see. */
export interface Visit {
  readonly page: Page;
  /** Dialogs of scripts, errors of the console (a violation of the policy is one) and of scripts. */
  readonly troubles: readonly string[];
  /** The addresses that the page asked for. */
  readonly requests: readonly string[];
}

/** Starts a browser of this test's own. It ends with the test, whatever happens. */
export async function startBrowser(): Promise<Browser> {
  const server = await chromium.launchServer({
    executablePath: ensureChromium(),
    headless: true,
    // Chromium has no sandbox for root.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  closeLater({ close: () => server.kill() });
  const browser = await chromium.connect(server.wsEndpoint());
  closeLater({ close: () => browser.close() });
  return browser;
}

/** Opens a page, and notes what it does. */
export async function visit(
  browser: Browser,
  url: string,
  options: Parameters<Browser['newPage']>[0] = {},
): Promise<Visit> {
  const page = await browser.newPage(options);
  // Far more than a page takes on a busy machine.
  page.setDefaultTimeout(60_000);
  const [troubles, requests]: [string[], string[]] = [[], []];
  page.on('dialog', (dialog) => {
    troubles.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => message.type() === 'error' && troubles.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => troubles.push(`error: ${error.message}`));
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(url);
  return { page, troubles, requests };
}
