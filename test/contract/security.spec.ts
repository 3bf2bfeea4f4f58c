import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import {
  LockConfigurationError,
  LockKeyError,
  LockStoreError,
  LockWaitTimeoutError,
  type RedisConnection,
} from '../../lib/index.js';
import { type StartedSecured, documentedRights, startSecured, startSentinels } from '../../scripts/topologies.mjs';
import { openCluster, startClusterNode } from '../support/cluster.js';
import { eventually } from '../support/eventually.js';
import { FREEZE_MS, ownRedis, queued, rejection } from '../support/faults.js';
import { type LockApp, SOON_CLOSED, closeAll, closeLater, freshKey, startApp } from '../support/lock-app.js';

/** As hostile to a URL as it may be. */
const PASSWORD = 'pa55:w0rd@/?#%';
const ENCODED = encodeURIComponent(PASSWORD);
const SECRET = /pa55/;

/** How long a waiter sleeps at most when nobody wakes it. */
const POLL_MS = 2_000;

/** What was logged since, by the library or past it to the console. */
function spyOnLogs(): { readonly lines: () => string[]; readonly warnings: () => string[] } {
  const methods = ['log', 'warn', 'error', 'debug', 'verbose', 'fatal'] as const;
  const ours = methods.map((method) => jest.spyOn(Logger.prototype, method));
  const consoles = (['log', 'info', 'warn', 'error', 'debug'] as const).map((method) =>
    jest.spyOn(console, method).mockImplementation(() => undefined),
  );
  const textOf = (spies: readonly { mock: { calls: unknown[][] } }[]) =>
    spies.flatMap(({ mock }) => mock.calls.map((args) => inspect(args, { depth: Infinity })));
  return { lines: () => textOf([...ours, ...consoles]), warnings: () => textOf([ours[1]!, consoles[2]!]) };
}

/** All that is told of an error when its stack is logged, down to its last cause. */
function textOf(error: unknown): string {
  const { message, stack, cause } = error as Error;
  return [message, stack, cause === undefined ? '' : textOf(cause)].join('\n');
}

const allow = (admin: Redis, rights: readonly string[]): Promise<unknown> =>
  admin.call('ACL', 'SETUSER', 'locks', 'reset', 'on', `>${PASSWORD}`, ...rights);

const asLocks = (port: number) => ({ port, username: 'locks', password: PASSWORD });

async function keysOf({ locks }: LockApp, prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of locks.list({ prefix })) keys.push(key);
  return keys.toSorted();
}

/** Has another instance wait, and tells whether the release granted it the lock, in the same step. */
async function isWoken(holder: LockApp, waiter: LockApp, admin: Redis, warnings: () => string[]): Promise<boolean> {
  const key = freshKey();
  const first = await holder.locks.acquire(key);
  const second = waiter.locks.acquire(key, { waitMs: POLL_MS + FREEZE_MS });
  await eventually(async () => (await queued(admin, key)) === 1);
  const [place] = (await admin.hkeys(`lock:${key}`)).filter((field) => field.startsWith('place:'));
  const channel = `lock:wake:${/^place:([^.]+)/.exec(place!)![1]}`;
  const isRefused = () => warnings().filter((line) => line.includes('Wake-ups are off')).length === 2;
  await eventually(async () => Number((await admin.pubsub('NUMSUB', channel))[1]) > 0 || isRefused());
  await first.release();
  const isHeld = (await admin.hkeys(`lock:${key}`)).some((field) => field.startsWith('hold:'));
  await (await second).release();
  return isHeld;
}

async function ownSecured(): Promise<StartedSecured> {
  const secured = await startSecured();
  closeLater({ close: () => secured.stop() });
  return secured;
}

describe('over TLS, with a client certificate and a user for locks only', () => {
  afterEach(closeAll);

  it('locks, wakes, lists and takes away, and is refused nothing', async () => {
    const { connection, admin: options } = await ownSecured();
    const admin = new Redis({ ...options, ...SOON_CLOSED });
    closeLater({ close: async () => admin.disconnect() });
    const [a, b] = [await startApp({ connection }), await startApp({ connection })];
    expect(await isWoken(a, b, admin, () => [])).toBe(true);
    const held = await a.locks.acquire('order:1');
    expect(await keysOf(b)).toEqual(['order:1']);
    expect(await b.locks.forceRelease('order:1')).toBe(true);
    await eventually(() => held.signal.aborted);
    const refused = inspect(await admin.call('ACL', 'LOG'), { depth: Infinity });
    // Redis 7.2 and later know that command of ioredis.
    expect(refused.replaceAll('client|setinfo', '')).not.toMatch(/'object'|object:/);
  });

  it('is closed to others', async () => {
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

/** Two instances that have the rights, one that may do everything, and a server that has forgotten all scripts. */
async function startWith(rights: readonly string[]) {
  const { warnings } = spyOnLogs();
  const { admin, url, port } = await ownRedis();
  const root = await startApp({ connection: url });
  // Kept, because a handle that nobody keeps is released.
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
  'forced release': ({ a }) => a.locks.forceRelease('held'),
  'no warning': async ({ warnings }) => !warnings().some((line) => /Wake-ups are off|INFO command fails/.test(line)),
};

const LOCKING = ['one key', 'several keys', 'wake-up'];
const ALL = [...LOCKING, 'list', 'forced release'];
/** What stops working without a right. */
const NEEDED: Record<string, readonly string[]> = {
  '~lock:*': ALL,
  '&lock:wake:*': ['wake-up', 'no warning'],
  '+evalsha': ALL,
  '+eval': ALL,
  '+time': ALL,
  '+hget': LOCKING,
  '+hmget': [...LOCKING, 'forced release'],
  '+hgetall': ['list', 'forced release'],
  '+hlen': ['several keys'],
  '+hset': [...LOCKING, 'forced release'],
  '+hdel': ['one key', 'several keys', 'wake-up, and polling', 'forced release'],
  '+pexpire': [...LOCKING, 'forced release'],
  '+pttl': [...LOCKING, 'forced release'],
  '+publish': ['wake-up'],
  '+subscribe': ['wake-up', 'no warning'],
  '+scan': ['list'],
  '+info': ['no warning'],
};

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

describe('the documented rights', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  it('are explained one by one, and tested below', () => {
    const document = readFileSync('docs/security.md', 'utf8');
    const [table] = /^\| Right \| What for.*\n(\|.*\n)+/m.exec(document)!;
    const explained = [...table.matchAll(/^\| `(.+?)` \|/gm)].map(([, right]) => right);
    expect(documentedRights()).toEqual(explained);
    const tested = [...Object.keys(NEEDED), 'resetchannels', '-@all'];
    expect(documentedRights().toSorted()).toEqual(tested.toSorted());
  });

  it('are enough', async () => {
    expect(await broken(await startWith(documentedRights()))).toEqual([]);
  });

  it.each(Object.entries(NEEDED))('are not enough without %s: %j', async (right, uses) => {
    const world = await startWith(documentedRights().filter((one) => one !== right));
    expect(await broken(world)).toEqual(uses);
  });

  it('are enough on a cluster, with two more', async () => {
    const more = ['+cluster|slots', '+cluster|info'];
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
    const started = await startSentinels();
    closeLater({ close: () => started.stop() });
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

describe('without the right', () => {
  afterEach(closeAll);

  const CASES: [string, { password: string; rights: readonly string[] }][] = [
    ['password', { password: `${PASSWORD}, wrong`, rights: documentedRights() }],
    ['commands', { password: PASSWORD, rights: ['~*', '&*', '-@all', '+info'] }],
    ['keys', { password: PASSWORD, rights: ['~other:*', '&*', '+@all'] }],
  ];

  it.each(CASES)('%s, a call rejects at once, and trying again is no use', async (_what, { password, rights }) => {
    const { admin, port } = await ownRedis();
    await allow(admin, rights);
    const { locks } = await startApp({ connection: { ...asLocks(port), password }, waitMs: 60_000 });
    const from = performance.now();
    const error = await rejection(locks.withLock('k', () => undefined));
    expect(performance.now() - from).toBeLessThan(1_000 + FREEZE_MS);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ retryable: false });
    expect(textOf(error)).not.toMatch(SECRET);
  });
});

const HOSTILE = [
  'nul\0byte', 'nul', 'cr\r\nlf', 'cr', '{tag}', '{tag}x', '{', '}', '{}', 'a{b', '%', '%%', '%25', '%7B', '%7btag}', '*', '**',
  '?', '[a-z]', '[^a]', '\\', '\\*', 'a', 'b', '^', '-', ' ', '  ', '\t', '\u001b[2J', '"', "' OR '1", '`', 'é', 'e\u0301', '漢字',
  '😀', '👩‍👩‍👧', '\u{10ffff}', 'שלום', '\u202eevil', '\ufeff', '\ufffd', '\uffff', '__proto__', 'constructor', 'null', '0', 'lock:',
  'wake:', "') redis.call('FLUSHALL') --", 'hold:x', '../../etc', 'x'.repeat(512), 'é'.repeat(256), '😀'.repeat(128),
  '%'.repeat(170),
]; // prettier-ignore

describe('hostile keys', () => {
  afterEach(closeAll);

  it('are locks of their own, are listed as given, and touch nothing else', async () => {
    const { admin, url } = await ownRedis();
    const others = { lock: 'a', 'lock;': 'b', 'LOCK:*': 'c', '*': 'd', x: 'e', nul: 'f' };
    await admin.mset(others);
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const held = await Promise.all(HOSTILE.map((key) => a.locks.acquire(key, { waitMs: 0 })));
    const refused = await Promise.all(HOSTILE.map((key) => b.locks.tryAcquire(key)));
    expect(refused).toEqual(HOSTILE.map(() => null));
    expect(await keysOf(b)).toEqual(HOSTILE.toSorted());
    for (const key of HOSTILE) {
      const expected = HOSTILE.filter((other) => other.startsWith(key)).toSorted();
      expect({ key, listed: await keysOf(b, key) }).toEqual({ key, listed: expected });
    }
    const stored = await admin.keys('*');
    expect(stored.filter((key) => !key.startsWith('lock:')).toSorted()).toEqual(Object.keys(others).toSorted());
    expect(stored).toHaveLength(HOSTILE.length + Object.keys(others).length);
    for (const lock of held) await lock.release();
    expect(await keysOf(b)).toEqual([]);
    expect(await admin.mget(Object.keys(others))).toEqual(Object.values(others));
  });

  const NO_KEYS = Object.entries({
    'of 513 bytes': 'x'.repeat(513),
    'of 513 bytes in 257 characters': `${'é'.repeat(256)}x`,
    'of 513 bytes when encoded': '%'.repeat(171),
    'with the first half of a character': 'a😀'.slice(0, 2),
    'with the second half of a character': '😀b'.slice(1),
    'with nothing in it': '',
  });
  it.each(NO_KEYS)('%s are refused', async (_what, key) => {
    const { locks } = await startApp();
    const calls = [locks.acquire(key), locks.acquire([key, 'b']), locks.inspect(key), locks.forceRelease(key)];
    for (const error of await Promise.all(calls.map((call) => rejection(call)))) {
      expect(error).toBeInstanceOf(LockKeyError);
    }
  });
});

const FORMS: Record<string, (port: number) => RedisConnection> = {
  'a URL': (port) => `redis://locks:${ENCODED}@127.0.0.1:${port}`,
  options: (port) => ({ ...asLocks(port), host: '127.0.0.1' }),
};

describe('the password', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  const FAILURES = ['is unreachable', 'refuses the password', 'dies'] as const;
  const cases = Object.keys(FORMS).flatMap((form) => FAILURES.map((failure) => [form, failure] as const));

  /** What every call rejects with when Redis fails, and what was logged. */
  async function fail(form: string, failure: (typeof FAILURES)[number]) {
    const { lines } = spyOnLogs();
    const server = await ownRedis();
    await allow(server.admin, failure === 'refuses the password' ? ['resetpass', '+@all'] : ['~*', '&*', '+@all']);
    if (failure === 'is unreachable') await server.kill();
    const { locks } = await startApp({ connection: FORMS[form]!(server.port) });
    const lost = failure === 'dies' ? await locks.acquire('held', { leaseMs: 500 }) : null;
    if (failure === 'dies') await server.kill();
    const calls = [
      locks.withLock('k', { waitMs: 100 }, () => undefined),
      locks.inspect('k'),
      locks.forceRelease('k'),
      locks.list()[Symbol.asyncIterator]().next(),
    ];
    const errors: unknown[] = await Promise.all(calls.map((call) => rejection(call)));
    if (lost) await eventually(() => lost.signal.aborted);
    if (lost) errors.push(lost.signal.reason);
    return { lines: lines(), errors };
  }

  it.each(cases)('in %s is in no log line and in no error when Redis %s', async (form, failure) => {
    const { lines, errors } = await fail(form, failure);
    expect(lines).not.toEqual([]);
    expect(lines.filter((line) => SECRET.test(line))).toEqual([]);
    expect(errors.map(textOf).filter((text) => SECRET.test(text))).toEqual([]);
  });

  const MISTAKES: Record<string, unknown> = {
    'an unknown scheme': `reds://locks:${ENCODED}@host`,
    'a list': [`reds://locks:${ENCODED}@host`],
    'a URL object': new URL(`redis://locks:${ENCODED}@host`),
    'a promise': Promise.resolve(`redis://locks:${ENCODED}@host`),
  };
  it.each(Object.keys(MISTAKES))('is not told when the connection is %s', async (mistake) => {
    const { lines } = spyOnLogs();
    const connection = MISTAKES[mistake] as RedisConnection;
    const error = await rejection(startApp({ connection }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect([inspect(error), ...lines()].filter((text) => SECRET.test(text))).toEqual([]);
  });
});
