import { type Page } from 'playwright-core';
import { closeAll } from '../../test/support/apps/lock-app.js';
import { startBrowser, visit } from '../../test/support/processes/browser.js';
import { eventually } from '../../test/support/waiting/eventually.js';
import type { PlaygroundState } from '../src/playground/playground.service.js';
import { cleanUp } from './support/processes.js';
import { readEvent } from './support/read-event.js';
import { allReady, expectNothingLeft, printed, run, type Run } from './support/runner.js';

interface Playground extends Run {
  readonly url: string;
  state(): Promise<PlaygroundState>;
  /** Returns the status of the answer. */
  post(path: string, headers?: Record<string, string>): Promise<number>;
}

/** Starts the runner, and waits until all instances run and one of them leads. */
async function start(env: NodeJS.ProcessEnv = {}): Promise<Playground> {
  const runner = run([], env);
  await printed(runner, allReady);
  const [, url] = /Playground: (\S+)/.exec(runner.output())!;
  const state = () => readEvent<PlaygroundState>(`${url}events`);
  const post: Playground['post'] = async (path, headers) =>
    (await fetch(url + path, { method: 'POST', headers })).status;
  await eventually(async () => leaderOf(await state()), { timeoutMs: 40_000, message: 'No instance leads' });
  return { ...runner, url: url!, state, post };
}

const leaderOf = ({ instances }: PlaygroundState) => instances.find(({ leads }) => leads)?.name;

async function end(playground: Playground): Promise<void> {
  playground.child.kill('SIGTERM');
  expect(await playground.ended).toBe(0);
}

const rowOf = (page: Page, title: string) => page.getByRole('row').filter({ hasText: title });

describe('the playground', () => {
  afterEach(cleanUp);
  afterEach(closeAll);

  it('shows in a browser that one instance wins, and that a second order waits for the first', async () => {
    const playground = await start();
    const browser = await startBrowser();
    const { page, troubles, requests } = await visit(browser, playground.url);
    await page.getByRole('button', { name: 'Notify all instances' }).click();
    const newsletter = rowOf(page, 'Newsletter of');
    await newsletter.getByText('skipped').nth(1).waitFor();
    await newsletter.getByText('sent it').waitFor();
    expect(await newsletter.getByText('sent it').count()).toBe(1);
    await page.getByRole('button', { name: 'Place an order twice' }).press('Enter');
    await rowOf(page, 'Order 1').getByText('charged it after').nth(1).waitFor();
    const tokens = (await rowOf(page, 'Order 1').textContent())!.match(/token \d+/g);
    expect(new Set(tokens).size).toBe(2);
    const lottery = rowOf(page, 'Lottery').filter({ hasText: 'drew 10 winners' });
    await lottery.first().waitFor();
    for (const row of await lottery.allTextContents()) expect(row.match(/drew/g)).toHaveLength(1);
    expect(troubles).toEqual([]);
    expect(requests.filter((url) => !url.startsWith(playground.url) && !url.startsWith('data:'))).toEqual([]);
    await page.evaluate("setTimeout(() => { throw new Error('no such moment'); })");
    await page.getByRole('alert').getByText('The script of this page failed').waitFor();
    await end(playground);
    await page.getByRole('alert').getByText('The playground does not answer.').waitFor();
    await expectNothingLeft(playground);
  }, 360_000);

  it('freezes the leader, so that another leads when the lease is over', async () => {
    const playground = await start({ REPORTS_LEASE_MS: '2000' });
    const leader = leaderOf(await playground.state())!;
    expect(await playground.post(`instances/${leader}/freeze`)).toBe(200);
    const next = await eventually(async () => [leaderOf(await playground.state())].find((name) => name !== leader), {
      timeoutMs: 40_000,
    });
    expect((await playground.state()).instances.find(({ name }) => name === leader)).toMatchObject({ state: 'frozen' });
    expect(await playground.post(`instances/${leader}/thaw`)).toBe(200);
    expect(await playground.post(`instances/${next}/kill`)).toBe(200);
    await eventually(async () => ![undefined, next].includes(leaderOf(await playground.state())), {
      timeoutMs: 40_000,
    });
    expect(await playground.post(`instances/${next}/start`)).toBe(200);
    const { instances } = await playground.state();
    expect(instances.map(({ state }) => state)).toEqual(['runs', 'runs', 'runs']);
    await end(playground);
  }, 120_000);

  it('cuts off Redis, which the board says, and brings it back', async () => {
    const playground = await start();
    expect(await playground.post('redis/cut')).toBe(200);
    expect((await playground.state()).isRedisCut).toBe(true);
    const shown = await readEvent(`${playground.url}locks/events?view=locks`, 'failed');
    expect(shown).toMatchObject({ isAway: true, error: expect.stringContaining('Redis') });
    expect(await playground.post('redis/mend')).toBe(200);
    const fires = async (): Promise<number> =>
      (await playground.state()).moments.findIndex(({ title }) => title === 'Redis is back');
    await eventually(async () => (await fires()) > 0, { timeoutMs: 40_000, message: 'No fire after Redis was back' });
    await end(playground);
  }, 120_000);

  it('refuses what it does not know, other sites, and to kill the last instance', async () => {
    const playground = await start();
    expect(await playground.post('instances/A/melt')).toBe(400);
    expect(await playground.post('instances/D/kill')).toBe(400);
    expect(await playground.post('instances/A/start')).toBe(409);
    expect(await playground.post('orders', { 'sec-fetch-site': 'cross-site' })).toBe(403);
    expect(await playground.post('orders', { origin: 'http://evil.example' })).toBe(403);
    expect(await playground.post('instances/A/kill')).toBe(200);
    expect(await playground.post('instances/B/kill')).toBe(200);
    expect(await playground.post('instances/C/kill')).toBe(409);
    await end(playground);
  }, 120_000);
});
