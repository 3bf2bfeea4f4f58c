import { once } from 'node:events';
import { Logger } from '@nestjs/common';
import { type Redis } from 'ioredis';
import { buildPackage, startChildApp } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, startNet } from '../../support/redis/quorum-net.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { rejection } from '../../support/waiting/rejection.js';
import { expectNothingAlive } from '../../support/waiting/waiters.js';

afterEach(closeAll);

const DRAIN_MS = 300;
/** A close that waited for the end of a lease would hang. */
const LEASE_MS = 600_000;
/** For how long a closed app is watched: it would have connected again by then. */
const QUIET_MS = 500;

/** What befalls the nodes before the close, and which of them are up. */
interface Trouble {
  readonly name: string;
  readonly up: readonly number[];
  readonly befall: (net: QuorumNet, proxies: NetApp['proxies']) => Promise<unknown>;
}

const TROUBLES: readonly Trouble[] = [
  { name: 'a node down', up: [0, 1], befall: ({ servers }) => servers[2]!.kill() },
  {
    name: 'a majority down',
    up: [0],
    befall: ({ servers }) => Promise.all([servers[1]!.kill(), servers[2]!.kill()]),
  },
  {
    name: 'a node that does not answer',
    up: [0, 1, 2],
    befall: async (_net, proxies) => proxies[2]!.blackhole(true),
  },
  {
    name: 'a majority that does not answer',
    up: [0, 1, 2],
    befall: async (_net, proxies) => proxies.slice(1).forEach((proxy) => proxy.blackhole(true)),
  },
];

/** What is logged above debug, and what is printed past the logger, as ioredis does with unhandled errors. */
function listenToLogs(): string[] {
  const lines: string[] = [];
  const note = (...args: unknown[]): void => void lines.push(args.map(String).join(' '));
  Logger.overrideLogger({ log: note, warn: note, error: note, fatal: note });
  for (const method of ['warn', 'error'] as const) jest.spyOn(console, method).mockImplementation(note);
  return lines;
}

function stopListening(): void {
  Logger.overrideLogger(false);
  jest.restoreAllMocks();
}

/** How often clients have connected, how many others are connected now, and how many scripts were run. */
async function statsOf(admin: Redis): Promise<{ received: number; clients: number; scripts: number }> {
  const text = await admin.info('all');
  const read = (pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? 0);
  return {
    received: read(/^total_connections_received:(\d+)/m),
    clients: read(/^connected_clients:(\d+)/m) - 1,
    scripts: read(/^cmdstat_evalsha:calls=(\d+)/m) + read(/^cmdstat_eval:calls=(\d+)/m),
  };
}

/** Asserts that no client is connected, that none comes back, and that no command runs. */
async function expectQuiet(admins: readonly Redis[]): Promise<void> {
  const clients = async () => (await Promise.all(admins.map(statsOf))).map((stats) => stats.clients);
  await eventually(async () => (await clients()).every((count) => count === 0));
  const before = await Promise.all(admins.map(statsOf));
  const until = performance.now() + QUIET_MS;
  await eventually(async () => {
    expect(await Promise.all(admins.map(statsOf))).toEqual(before);
    return performance.now() > until;
  });
}

/** An app in the middle of everything it can do: it holds, waits, and has a release under way. */
async function startBusy(net: QuorumNet) {
  const app = await net.app({ drainMs: DRAIN_MS });
  const [held, given] = [freshKey('held'), freshKey('given')];
  const lock = await app.locks.acquire(held, { leaseMs: LEASE_MS });
  const giving = await app.locks.acquire(given, { leaseMs: LEASE_MS });
  for (const key of [held, given]) await eventually(async () => (await heldRow(net.admins, key)) === '111');
  let isWaiting = false;
  app.locks.events.on('waiting', () => (isWaiting = true));
  const waited = rejection<Error & { code: string }>(app.locks.acquire(held, { waitMs: 60_000, leaseMs: LEASE_MS }));
  await eventually(() => isWaiting);
  return { app, lock, giving, waited };
}

describe.each(TROUBLES)('app.close() with $name', ({ up, befall }) => {
  afterEach(stopListening);
  it('ends, and leaves nothing alive, sent or logged', async () => {
    const net = await startNet(3);
    const { app, lock, giving, waited } = await startBusy(net);
    const lines = listenToLogs();
    await befall(net, app.proxies);
    const { signal } = lock;
    const released = giving.release();
    await app.close();
    expect((await waited).code).toBe('LOCK_SHUTDOWN');
    expect([lock.held, signal.aborted]).toEqual([false, true]);
    expect((await rejection<Error & { code: string }>(app.locks.acquire(freshKey()))).code).toBe('LOCK_SHUTDOWN');
    await released;
    await expectNothingAlive([app]);
    const linesAtClose = lines.length;
    // What was sent into the hole is lost, and its connections close.
    for (const proxy of app.proxies) proxy.blackhole(false);
    await expectQuiet(net.admins.filter((_, i) => up.includes(i)));
    expect(lines.filter((line) => /unhandled|TypeError|at .+:\d+:\d+/i.test(line))).toEqual([]);
    expect(lines.slice(linesAtClose)).toEqual([]);
  });
});

// One node that is down shows nothing that a majority does not.
describe.each(TROUBLES.slice(1))('app.close() of a process with $name', ({ befall }) => {
  beforeAll(buildPackage, 90_000);
  it('leaves no socket and no timer, so that the process ends by itself', async () => {
    const net = await startNet(3);
    const proxies = await Promise.all(net.servers.map(async ({ port }) => closeLater(await startTcpProxy(port))));
    const child = await startChildApp({ connection: proxies.map(({ url }) => url), drainMs: DRAIN_MS });
    const exit = once(child.process, 'exit');
    const key = freshKey();
    await child.acquire(key, { leaseMs: LEASE_MS });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    await befall(net, proxies);
    expect(await child.close()).toEqual([]);
    expect(await exit).toEqual([0, null]);
  });
});

describe('app.close() while commands are under way', () => {
  it('ends commands to nodes that have gone since', async () => {
    const net = await startNet(3);
    const app = await net.app({ drainMs: DRAIN_MS });
    const key = freshKey();
    const lock = await app.locks.acquire(key, { leaseMs: LEASE_MS });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    for (const proxy of app.proxies.slice(1)) proxy.blackhole(true);
    const released = lock.release();
    await eventually(async () => (await heldRow(net.admins, key)) === '011');
    for (const proxy of app.proxies.slice(1)) disconnect(proxy);
    await app.close();
    await released;
    expect(app.locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });
});
