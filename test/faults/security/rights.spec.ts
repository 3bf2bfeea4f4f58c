import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { createLockScripts, LockStoreError, LockWaitTimeoutError } from '../../../lib/index.js';
import { documentedRights } from '../../../scripts/topologies.mjs';
import { itLikeIoredis, itOnNodeRedis } from '../../support/clients/library.js';
import { appClient } from '../../support/redis/connections.js';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, SOON_CLOSED, closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { allow, asLocks, PASSWORD, SECRET, spyOnLogs } from './support.js';
import { keysOf } from '../../support/apps/listed.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownSecured, ownSentinels } from '../../support/redis/own-topologies.js';

afterEach(closeAll);

/** How long a waiter sleeps at most without a wake-up. */
const POLL_MS = 2_000;

/** Has another instance wait, and returns whether the release granted it the lock, in the same step. */
async function isWoken(holder: LockApp, waiter: LockApp, admin: Redis, warnings: () => string[]): Promise<boolean> {
  const key = freshKey();
  const first = await holder.locks.acquire(key);
  // Less than the lease: when that ends, the reply differs.
  const second = waiter.locks.acquire(key, { waitMs: 15_000 });
  await Promise.race([eventually(async () => (await queued(admin, key)) === 1), second]);
  const place = Object.entries(await hashOf(admin, key)).find(([field]) => field.startsWith('queue:'));
  const channel = `lock:wake:${/([^ .]+)\.\S+$/.exec(place![1])![1]}`;
  const isRefused = () => warnings().filter((line) => line.includes('Wake-ups are off')).length === 2;
  await eventually(async () => Number((await admin.pubsub('NUMSUB', channel))[1]) > 0 || isRefused());
  await first.release();
  const isHeld = Object.keys(await hashOf(admin, key)).some((field) => field.startsWith('hold:'));
  await (await second).release();
  return isHeld;
}

/**
 * What the server refused, by the lines of its log. Leaves out that a library sends its name and version, which no right allows:
 * servers from 7.2 on log that as `client|setinfo`, and Redis 6.2, which lacks the command, as `client`.
 */
async function refusedBy(admin: Redis): Promise<unknown[]> {
  const lines = (await admin.call('ACL', 'LOG')) as unknown[][];
  const refused = lines.map((line) => line[line.indexOf('object') + 1]);
  return refused.filter((name) => name !== 'client|setinfo' && name !== 'client');
}

describe('over TLS, with a client certificate and a user for locks only', () => {
  it('locking, waking, listing and revoking work', async () => {
    const { connection, admin: options } = await ownSecured();
    const admin = new Redis({ ...options, ...SOON_CLOSED });
    closeLater({ close: async () => admin.disconnect() });
    const [a, b] = [await startApp({ connection }), await startApp({ connection })];
    expect(await isWoken(a, b, admin, () => [])).toBe(true);
    const held = await a.locks.acquire('order:1');
    expect(await keysOf(b)).toEqual(['order:1']);
    expect(await b.locks.forceRelease('order:1')).toBe(true);
    await eventually(() => held.signal.aborted);
    expect(await refusedBy(admin)).toEqual([]);
  });

  it('other users are refused', async () => {
    const { connection, server } = await ownSecured();
    const { ca } = connection.tls;
    const others = { 'no certificate': { ...connection, tls: { ca } }, 'no TLS': { ...connection, tls: undefined } };
    const plain = { ...connection, tls: undefined, port: server.port };
    const refusals = [...Object.values(others), plain].map(async (other) => {
      const { locks } = await startApp({ connection: other });
      return rejection(locks.withLock('k', { waitMs: 0 }, () => undefined));
    });
    for (const error of await Promise.all(refusals)) expect(error).toBeInstanceOf(LockStoreError);
  });
});

/** Two instances that have the permissions, one that may do everything, and a server that has forgotten all scripts. */
async function startWith(rights: readonly string[]) {
  const { warnings } = spyOnLogs();
  const { admin, url, port } = await ownRedis();
  const root = await startApp({ connection: url });
  // Kept, because an unreferenced handle is released.
  const held = await root.locks.acquire('held');
  await admin.script('FLUSH');
  await allow(admin, rights);
  const [a, b] = [await startApp({ connection: asLocks(port) }), await startApp({ connection: asLocks(port) })];
  return { a, b, root, held, admin, warnings };
}

type World = Awaited<ReturnType<typeof startWith>>;

async function comesAndGoes({ a, root }: World, key: string | string[]): Promise<boolean> {
  await (await a.locks.acquire(key)).release();
  return !(await root.locks.isLocked([key].flat()[0]!));
}

const USES: Record<string, (world: World) => Promise<boolean>> = {
  'one key': (world) => comesAndGoes(world, 'one'),
  'several keys': (world) => comesAndGoes(world, ['several:1', 'several:2']),
  'wake-up': ({ a, b, admin, warnings }) => isWoken(a, b, admin, warnings),
  list: async ({ a }) => (await keysOf(a)).includes('held'),
  revocation: ({ a }) => a.locks.forceRelease('held'),
  'no warning': async ({ warnings }) => !warnings().some((line) => WARNING.test(line)),
};

/** Our own ones, and that of ioredis about INFO. */
const WARNING = /Wake-ups are off|does not report which server|INFO command fails/;

const LOCKING = ['one key', 'several keys', 'wake-up'];
const ALL = [...LOCKING, 'list', 'revocation'];
/** What stops working without a permission. */
const NEEDED: Record<string, readonly string[]> = {
  '~lock:*': ALL,
  '&lock:wake:*': ['wake-up', 'no warning'],
  '+evalsha': ALL,
  '+eval': ALL,
  '+time': ALL,
  '+hget': ALL,
  '+hmget': ALL,
  '+hgetall': ['list', 'revocation'],
  '+hset': [...LOCKING, 'revocation'],
  '+hdel': ['wake-up, and polling', 'revocation'],
  '+pexpire': LOCKING,
  '+publish': ['wake-up'],
  '+pubsub|numsub': ['wake-up'],
  '+subscribe': ['wake-up', 'no warning'],
  '+scan': ['list'],
  '+info': ['no warning'],
};

/** Those that only the history needs. */
const OF_HISTORY = ['+xadd', '+xtrim', '+xrevrange'];

async function broken(world: World): Promise<string[]> {
  const names: string[] = [];
  for (const [name, works] of Object.entries(USES)) {
    const answer = await works(world).catch((error: unknown) => error);
    const inVain = answer instanceof LockWaitTimeoutError;
    if (answer instanceof Error && !inVain) expect(answer).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    if (answer !== true) names.push(inVain ? `${name}, and polling` : name);
  }
  return names;
}

describe('the documented permissions', () => {
  afterEach(() => jest.restoreAllMocks());

  it('are each explained and tested', () => {
    const document = readFileSync('docs/security.md', 'utf8');
    const [table] = /^\| Permission \| What for.*\n(\|.*\n)+/m.exec(document)!;
    const explained = [...table.matchAll(/^\| `(.+?)` \|/gm)].map(([, right]) => right!.replaceAll('\\|', '|'));
    expect(documentedRights()).toEqual(explained);
    const tested = [...Object.keys(NEEDED), 'resetchannels', '-@all'];
    expect(documentedRights().toSorted()).toEqual(tested.toSorted());
  });

  it('name every command of the scripts', () => {
    const texts = Object.values(createLockScripts());
    const called = texts.flatMap((text) => [...text.matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, name]) => name!));
    const rights = [...documentedRights(), ...OF_HISTORY].map((right) => right.split('|')[0]);
    const missing = [...new Set(called)].filter((name) => !rights.includes(`+${name.toLowerCase()}`));
    expect(called.length).toBeGreaterThan(10);
    expect(missing).toEqual([]);
  });

  it('are enough', async () => {
    expect(await broken(await startWith(documentedRights()))).toEqual([]);
  });

  it.each(Object.entries(NEEDED))('are not enough without %s: %j', async (right, uses) => {
    const world = await startWith(documentedRights().filter((one) => one !== right));
    expect(await broken(world)).toEqual(uses);
  });

  it('are enough for the history, with three more', async () => {
    const document = readFileSync('docs/security.md', 'utf8');
    for (const right of OF_HISTORY) expect(document).toContain(`\`${right}\``);
    const { admin, port } = await ownRedis();
    const run = async (rights: readonly string[]) => {
      await allow(admin, [...documentedRights(), ...rights]);
      const app = await startApp({ connection: asLocks(port), history: true });
      expect(await app.locks.withLock(freshKey(), { waitMs: 0 }, () => 'done')).toBe('done');
      const answer = await app.locks.history().catch((error: unknown) => error);
      await app.close();
      return Array.isArray(answer) ? answer.length : answer;
    };
    expect(await run(OF_HISTORY)).toBe(2);
    expect(await refusedBy(admin)).toEqual([]);
    await admin.flushall();
    expect(await run(['+xadd', '+xrevrange'])).not.toBe(2);
    expect(await run(['+xrevrange', '+xtrim'])).not.toBe(2);
    expect(await run(['+xadd', '+xtrim'])).toMatchObject({ code: 'LOCK_STORE', retryable: false });
  });

  it('are enough on a cluster, with those that the library needs', async () => {
    const more = ['+cluster|slots'];
    const { admin, port } = await startClusterNode();
    const { username, password } = asLocks(port);
    const run = async (rights: readonly string[]) => {
      await allow(admin, [...documentedRights(), ...rights]);
      const connection = openCluster(port, { redisOptions: { username, password } });
      const app = await startApp({ connection });
      return app.locks.withLock(freshKey('cluster'), { waitMs: 0 }, () => keysOf(app, 'cluster'));
    };
    expect(await run(more)).toHaveLength(1);
    for (const right of more) {
      expect(await rejection(run(more.filter((one) => one !== right)))).toBeInstanceOf(LockStoreError);
    }
  });

  it('are enough behind Sentinel, whose own user needs two', async () => {
    const started = await ownSentinels();
    const { connection, master, replicas, sentinels } = started;
    const rightsOfSentinel = ['-@all', '+sentinel|get-master-addr-by-name', '+sentinel|sentinels'];
    const allowOn = async ({ port }: { port: number }, rights: readonly string[]) => {
      const admin = new Redis(port, SOON_CLOSED);
      await allow(admin, rights).finally(() => admin.disconnect());
    };
    await Promise.all([master, ...replicas].map((server) => allowOn(server, documentedRights())));
    await Promise.all(sentinels.map((sentinel) => allowOn(sentinel, rightsOfSentinel)));
    const { username, password } = asLocks(0);
    const asUsers = { username, password, sentinelUsername: username, sentinelPassword: password };
    const app = await startApp({ connection: { ...connection, ...asUsers } });
    expect(await app.locks.withLock('k', () => keysOf(app))).toEqual(['k']);
  });
});

describe('a permission that only keeps the log of the server clean', () => {
  /** Has a call wait on a client of the application for as long as it takes, and gives what the server refused. */
  async function refusedWhileWaiting(rights: readonly string[], isOver: (refused: readonly unknown[]) => boolean) {
    const { admin, port, url } = await ownRedis();
    await allow(admin, [...documentedRights(), ...rights]);
    const { username, password } = asLocks(port);
    const [holder, waiter] = [
      await startApp({ connection: url }),
      await startApp({ connection: appClient(url, { username, password }).client }),
    ];
    const key = freshKey();
    const held = await holder.locks.acquire(key);
    const waiting = waiter.locks.acquire(key, { waitMs: 30_000 });
    await eventually(async () => isOver(await refusedBy(admin)), { timeoutMs: 20_000 });
    await held.release();
    expect((await waiting).held).toBe(true);
    return refusedBy(admin);
  }

  itOnNodeRedis('is that to ping by the subscriber', async () => {
    const refused = await refusedWhileWaiting([], (names) => names.includes('ping'));
    expect(new Set(refused)).toEqual(new Set(['ping']));
  });

  itOnNodeRedis('is all that is missing', async () => {
    const until = performance.now() + 2 * POLL_MS;
    expect(await refusedWhileWaiting(['+ping'], () => performance.now() > until)).toEqual([]);
  });

  const withName = async (rights: readonly string[]) => {
    const { admin, port } = await ownRedis();
    await allow(admin, [...documentedRights(), ...rights]);
    const { locks } = await startApp({ connection: { ...asLocks(port), connectionName: 'locks-of-the-app' } });
    return locks.withLock(freshKey(), { waitMs: 0 }, () => 'done');
  };

  itLikeIoredis('is that to name a connection', async () => {
    expect(await withName([])).toBe('done');
  });

  itOnNodeRedis('is not that to name a connection: node-redis gives it up', async () => {
    expect(await rejection(withName([]))).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(await withName(['+client|setname'])).toBe('done');
  });
});

describe('a missing right', () => {
  const CASES: [string, { password: string; rights: readonly string[] }][] = [
    ['password', { password: `${PASSWORD}, wrong`, rights: documentedRights() }],
    ['commands', { password: PASSWORD, rights: ['~*', '&*', '-@all', '+info'] }],
    ['keys', { password: PASSWORD, rights: ['~other:*', '&*', '+@all'] }],
  ];

  it.each(CASES)('%s: a call rejects at once, without a retry', async (_what, { password, rights }) => {
    const { admin, port } = await ownRedis();
    await allow(admin, rights);
    const { locks } = await startApp({ connection: { ...asLocks(port), password }, waitMs: 600_000 });
    const error = await rejection(locks.withLock('k', () => undefined));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ retryable: false });
    expect(inspect(error, { depth: Infinity })).not.toMatch(SECRET);
  });

  it.each([
    ['a cluster', async () => startClusterNode()],
    ['one master of a quorum of two', async () => ownRedis()],
  ])('password of %s: a call rejects with the reason, without a retry', async (whose, start) => {
    const { admin, port } = await start();
    await allow(admin, documentedRights());
    const wrong = { username: 'locks', password: `${PASSWORD}, wrong` };
    const master = { host: '127.0.0.1', port, ...wrong };
    const connection =
      whose === 'a cluster'
        ? { cluster: [{ host: '127.0.0.1', port }], redisOptions: wrong }
        : [master, (await ownRedis()).url];
    const { locks } = await startApp({ connection, waitMs: 60_000 });
    const error = await rejection(locks.withLock('k', { leaseMs: 2_000 }, () => undefined));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(error.message).toContain('WRONGPASS');
    expect(inspect(error, { depth: Infinity })).not.toMatch(SECRET);
  });

  it('certificate: a call rejects with the reason', async () => {
    const secured = await ownSecured();
    const { tls: _tls, ...rest } = secured.connection;
    const { locks } = await startApp({ connection: { ...rest, tls: {} } });
    const error = await rejection(locks.withLock('k', { waitMs: 300 }, () => undefined));
    expect(error.message).toMatch(/certificate/);
  });
});
