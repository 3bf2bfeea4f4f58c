import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buildPackage } from '../support/processes/child-app.js';
import { redisUrl } from '../support/topologies/topology.js';
import { eventually } from '../support/waiting/eventually.js';

const root = process.cwd();
const WAIT = { timeoutMs: 40_000 };
const children: ChildProcess[] = [];

async function endOf(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}

afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => endOf(child, 'SIGKILL')));
});

interface Instance {
  /** What it has printed. */
  readonly lines: readonly string[];
  readonly url: string;
  end(): Promise<void>;
}

/** Compiles an example as its `npm start` does, and returns how an instance of it is started. */
async function exampleOf(name: string, more: NodeJS.ProcessEnv = {}) {
  await buildPackage();
  const folder = join(root, 'examples', name);
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc')], { cwd: folder, stdio: 'pipe' });
  const env = { ...process.env, PORT: '0', REDIS_URL: redisUrl(), LOCK_PREFIX: `${randomUUID()}:`, ...more };
  return async (): Promise<Instance> => {
    const child = spawn(process.execPath, ['dist/main.js'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
    const ready = await eventually(() => lines.find((line) => line.startsWith('ready')), WAIT);
    const url = ready.replace('ready at ', '').replace('[::1]', 'localhost');
    return { lines, url, end: () => endOf(child, 'SIGTERM') };
  };
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Whether no two of these were at the same time. */
const areApart = (spans: readonly Span[]): boolean => {
  const sorted = spans.toSorted((a, b) => a.from - b.from);
  return sorted.every(({ from }, at) => at === 0 || from >= sorted[at - 1]!.to);
};

const linesOf = (instances: readonly Instance[], start: string): string[] =>
  instances.flatMap(({ lines }) => lines.filter((line) => line.startsWith(start)));

it('the example cron writes one report a second, on two instances', async () => {
  const start = await exampleOf('cron');
  const second = (): number => Math.floor(Date.now() / 1_000);
  const first = second();
  const instances = await Promise.all([start(), start()]);
  const tokens = (): string[] => linesOf(instances, 'process').map((line) => line.split(' ').at(-1)!);
  await eventually(() => tokens().length >= 3, WAIT);
  const written = tokens();
  expect(new Set(written).size).toBe(written.length);
  // Two instances without the lock would write twice the number.
  expect(written.length).toBeLessThanOrEqual(second() - first + 1);
}, 120_000);

it('the example http charges an order one call at a time, on two instances', async () => {
  const start = await exampleOf('http');
  const instances = await Promise.all([start(), start()]);
  const charge = async ({ url }: Instance) => {
    const answer = await fetch(`${url}/orders/7/charge`, { method: 'POST' });
    expect(answer.status).toBe(201);
    return (await answer.json()) as Span & { instance: number };
  };
  const charges = await Promise.all([...instances, ...instances].map(charge));
  expect(new Set(charges.map(({ instance }) => instance)).size).toBe(2);
  expect(areApart(charges)).toBe(true);
}, 120_000);

it('the example bullmq makes the invoices of a customer one after the other', async () => {
  const start = await exampleOf('bullmq');
  const instances = await Promise.all([start(), start()]);
  await eventually(() => linesOf(instances, '{').length === 8, WAIT);
  const jobs = linesOf(instances, '{').map((line) => JSON.parse(line) as Span & { customer: string });
  for (const customer of ['ann', 'bob']) {
    const ofCustomer = jobs.filter((job) => job.customer === customer);
    expect(ofCustomer).toHaveLength(4);
    expect(areApart(ofCustomer)).toBe(true);
  }
}, 120_000);

it('the example leader has one leader, and another one when that ends', async () => {
  const start = await exampleOf('leader');
  const [a, b] = await Promise.all([start(), start()]);
  const terms = (): string[] => linesOf([a, b], 'process');
  await eventually(() => terms().length === 1, WAIT);
  const leads = linesOf([a], 'process').length === 1 ? a : b;
  await leads.end();
  await eventually(() => terms().length === 2, WAIT);
  expect(linesOf([leads], 'process')).toHaveLength(1);
}, 120_000);

it('the example playground lets calls of one order wait for each other, without a Redis', async () => {
  const start = await exampleOf('playground', { WORK_MS: '300', REDIS_URL: 'redis://127.0.0.1:1' });
  const { url } = await start();
  expect(await (await fetch(url)).text()).toContain('Charge order 7');
  expect((await fetch(`${url}/locks`)).status).toBe(200);
  const charge = async () => (await fetch(`${url}/orders/7/charge`, { method: 'POST' })).json();
  const [one, other] = (await Promise.all([charge(), charge()])) as { fencingToken: number }[];
  const events = (await (await fetch(`${url}/events`)).json()) as string[];
  const begins = ({ fencingToken }: { fencingToken: number }) => `order:7: charge begins, token ${fencingToken}`;
  const [first, next] = [one!, other!].toSorted((a, b) => a.fencingToken - b.fencingToken);
  const ends = 'order:7: charge ends';
  expect(events.filter((text) => text.includes('charge'))).toEqual([begins(first!), ends, begins(next!), ends]);
}, 120_000);
