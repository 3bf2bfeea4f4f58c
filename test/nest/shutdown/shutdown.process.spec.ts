import { once } from 'node:events';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(closeAll);

beforeAll(buildPackage, 60_000);

interface Orders {
  /** Left out: locks in memory, so that nothing of a connection keeps the process alive. */
  readonly connection?: string;
  /** The options of a client that is given to the module; left out: the module has its own. */
  readonly given?: object;
  readonly before?: readonly string[];
  readonly awaited: string;
}

/** A process that awaits one thing, and its outcome: its messages, and how it ended. */
function start({ connection, ...orders }: Orders) {
  const module = { connection, drainMs: 300 };
  const { child, gone } = forkScript('awaiting-process.mjs', JSON.stringify({ module, ...orders }));
  const told: unknown[] = [];
  child.on('message', (message) => told.push(message));
  const ready = () => eventually(() => told.includes('ready'), { timeoutMs: 60_000 });
  const outcome = gone.then(([code]) => ({ told: told.filter((what) => what !== 'ready'), code }));
  return { child, ready, outcome };
}

/** Lets all continue, once they are ready and this is done. */
async function goOn(all: readonly ReturnType<typeof start>[], begin: () => Promise<unknown>): Promise<void> {
  await Promise.all(all.map(({ ready }) => ready()));
  await begin();
  for (const { child } of all) child.send('continue');
}

const OF_REDIS = ['acquire', 'extend', 'downgrade', 'release', 'inspect', 'lastRun', 'forceRelease', 'list', 'close'];

const after = (what: string, value = 'done') => ({ told: [`after ${what}: ${value}`], code: 0 });

describe('a process that awaits nothing but a call of the module', () => {
  it.each([
    ['acquire', 'LOCK_WAIT_TIMEOUT', ['hold']],
    ['withLock', 'LOCK_WAIT_TIMEOUT', ['hold']],
    ['nested', 'LOCK_WAIT_TIMEOUT', []],
    ['job', 'ran', []],
    ['close', 'done', ['hold']],
  ])('continues after that call: %s', async (awaited, value, before) => {
    expect(await start({ before, awaited }).outcome).toEqual(after(awaited, value));
  });

  it('continues after that call when Redis hangs', async () => {
    const server = await ownRedis();
    const all = OF_REDIS.map((awaited) =>
      start({ connection: server.url, before: ['hold', 'told', 'unref'], awaited }),
    );
    await goOn(all, () => server.kill('SIGSTOP'));
    const outcomes = await Promise.all(all.map(({ outcome }) => outcome));
    expect(outcomes).toEqual(
      OF_REDIS.map((awaited) => ({ told: [expect.stringContaining(`after ${awaited}: `)], code: 0 })),
    );
  }, 120_000);

  it('runs until the release of a call that did not wait for it is confirmed', async () => {
    const proxy = await proxyTo((await ownRedis()).url);
    const before = ['use', 'told', 'unref', 'early'];
    const call = start({ connection: proxy.url, before, awaited: 'nothing' });
    await goOn([call], async () => (proxy.delayMs = 300));
    expect(await call.outcome).toEqual({ told: ['returned', 'after nothing: done'], code: 0 });
  }, 60_000);

  it.each([
    ['in memory', false],
    ['on Redis, when its connections do not keep it alive', true],
  ])('ends when it awaits no call and only holds a lock (%s)', async (_where, isOnRedis) => {
    const connection = isOnRedis ? (await ownRedis()).url : undefined;
    expect(await start({ connection, before: ['hold', 'unref'], awaited: 'nothing' }).outcome).toEqual(
      after('nothing'),
    );
  });
});

/** Its own connection, and two clients of the application: one tries again forever, one gives up. */
const CLIENTS = [undefined, {}, { maxRetriesPerRequest: null }, { retryStrategy: null }];

/** How Redis is away: from the start, or what is done to it later. */
const OUTAGES: Record<string, ((server: StartedRedis) => Promise<unknown>) | null> = {
  'is down from the start': null,
  'goes away': (server) => server.kill(),
  hangs: (server) => server.kill('SIGSTOP'),
};

describe('`await app.close()`', () => {
  it.each(Object.entries(OUTAGES))(
    'resolves when Redis %s, with any client, and then the process ends by itself',
    async (_name, begin) => {
      const server = await ownRedis();
      if (!begin) await server.kill();
      const before = begin ? ['use', 'hold', 'told'] : [];
      const all = CLIENTS.map((given) => start({ connection: server.url, given, before, awaited: 'close' }));
      if (begin) await goOn(all, () => begin(server));
      expect(await Promise.all(all.map(({ outcome }) => outcome))).toEqual(CLIENTS.map(() => after('close')));
    },
    120_000,
  );

  it('resolves when connections are refused, and when nothing answers them', async () => {
    const [refusing, silent] = [await proxyTo(), await proxyTo()];
    refusing.refuse(true);
    silent.blackhole(true);
    const outcomes = [refusing, silent].map(({ url }) => start({ connection: url, awaited: 'close' }).outcome);
    expect(await Promise.all(outcomes)).toEqual([after('close'), after('close')]);
  }, 120_000);
});

interface Told {
  readonly what: string;
  readonly at: number;
}

/** Starts the process and has it work under the lock. */
async function startWork(work: 'told' | 'endless' | 'deaf', drainMs: number) {
  const key = freshKey('signal');
  const module = { connection: redisUrl(), drainMs, leaseMs: 10_000 };
  const { child, gone } = forkScript('shutdown-process.mjs', JSON.stringify({ module, key, work }));
  const told: Told[] = [];
  child.on('message', (message: Told) => told.push(message));
  const find = (what: string) => told.find((one) => one.what === what);
  await eventually(() => find('began'), { timeoutMs: 30_000 });
  return { key, child, gone, told, find };
}

/** What lies in Redis for a lock: it may remember its last token, but no hold and no waiter. */
async function holdsOf(key: string): Promise<string[]> {
  const fields = Object.keys(await hashOf(openAdmin(), key));
  expect(fields).toContain('token');
  return fields.filter((field) => /^(hold|queue|place|id):/.test(field));
}

describe('SIGTERM during locked work', () => {
  it('lets the work end under its lock, then ends the process by the signal, with no lock left', async () => {
    const { key, child, gone, told, find } = await startWork('told', 10_000);
    const admin = openAdmin();
    child.send('acquire');
    await eventually(async () => (await queued(admin, key)) > 0);
    child.kill('SIGTERM');
    expect(await eventually(() => find('refused'))).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    child.send('end');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('ended')).toMatchObject({ held: true });
    expect(told.map(({ what }) => what)).toEqual(['began', 'refused', 'ended', 'shutdown']);
    expect(find('shutdown')).toMatchObject({ signal: 'SIGTERM' });
    expect(await holdsOf(key)).toEqual([]);
  });

  it('aborts work that continues after drainMs, and not before', async () => {
    const { key, child, gone, told, find } = await startWork('endless', 700);
    const at = Date.now();
    child.kill('SIGTERM');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('aborted')).toMatchObject({ reason: 'shutdown', cause: 'LOCK_SHUTDOWN' });
    expect(find('aborted')!.at - at).toBeGreaterThanOrEqual(690);
    expect(told.map(({ what }) => what).slice(0, 3)).toEqual(['began', 'aborted', 'failed']);
    expect(await holdsOf(key)).toEqual([]);
  });

  it('ends the process even when the work ignores the signal, with no lock left', async () => {
    const { key, child, gone, find } = await startWork('deaf', 300);
    child.kill('SIGTERM');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('shutdown')).toBeDefined();
    expect(await holdsOf(key)).toEqual([]);
  });
});

// V8 stops all FinalizationRegistry callbacks of a process once a registry is collected with callbacks still due.
describe('finalizers of the process', () => {
  it.each(['nothing', 'released', 'lost', 'lost, of several keys', 'held at the shutdown'])(
    'still run after an app was closed and collected: %s',
    async (use) => {
      const { child } = forkScript('finalizers-process.mjs', use);
      const [told] = (await once(child, 'message')) as [unknown];
      expect(told).toEqual({ isCollected: true, finalized: true });
    },
  );
});
