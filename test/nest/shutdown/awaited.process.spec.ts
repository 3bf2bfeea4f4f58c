import { type StartedRedis } from '../../../scripts/redis.mjs';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

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

/** Has all go on, once they are ready and this is done. */
async function goOn(all: readonly ReturnType<typeof start>[], begin: () => Promise<unknown>): Promise<void> {
  await Promise.all(all.map(({ ready }) => ready()));
  await begin();
  for (const { child } of all) child.send('go on');
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
  ])('goes on after that call: %s', async (awaited, value, before) => {
    expect(await start({ before, awaited }).outcome).toEqual(after(awaited, value));
  });

  it('goes on after that call when Redis hangs', async () => {
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

  it('goes on until the release of a call that did not wait for it is confirmed', async () => {
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

/** An own connection, and clients of the application, of which one tries again for ever, and one gives up. */
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
