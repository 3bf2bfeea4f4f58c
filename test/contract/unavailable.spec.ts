import 'reflect-metadata';
import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Redis, type RedisOptions } from 'ioredis';
import {
  currentLock,
  Locked,
  LockNotHeldError,
  LockStoreError,
  type OnUnavailable,
  type RedisConnection,
} from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { FREEZE_MS, hashOf, ownRedis, proxyTo, rejection, startAgain } from '../support/faults.js';
import { type LockApp, closeAll, closeLater, freshKey, openAdmin, startApp } from '../support/lock-app.js';

/** A client of the caller's own. */
function givenClient(url: string, options: RedisOptions): Redis {
  const client = new Redis(url, options);
  client.on('error', () => undefined);
  const duplicate = client.duplicate.bind(client);
  const copies: Redis[] = [client];
  let end = (copy: Redis): unknown => copies.push(copy);
  // A connection that is left open would keep this process alive; one test is about those alone.
  client.duplicate = (override) => {
    const copy = duplicate(override);
    end(copy);
    return copy;
  };
  const close = async (): Promise<void> => {
    end = (copy) => copy.disconnect();
    copies.forEach(end);
  };
  closeLater({ close });
  return client;
}

const CONNECTIONS: Record<string, (url: string) => RedisConnection> = {
  'an own connection': (url) => url,
  'a given client': (url) => givenClient(url, {}),
  'a given client that retries for ever': (url) => givenClient(url, { maxRetriesPerRequest: null }),
  'a given client that retries for ever, without a queue': (url) =>
    givenClient(url, { maxRetriesPerRequest: null, enableOfflineQueue: false }),
};

const never = (): null => null;
const IN_AN_HOUR = { retryStrategy: () => 3_600_000 };
/** Connections whose application does not want them back soon, or at all. */
const RELUCTANT: Record<string, (url: string) => RedisConnection> = {
  'an own connection that gives up': (url) => ({ port: Number(new URL(url).port), retryStrategy: never }),
  'an own connection that is late': (url) => ({ port: Number(new URL(url).port), ...IN_AN_HOUR }),
  'a given client that gives up': (url) => givenClient(url, { retryStrategy: never }),
  'a given client that is late': (url) => givenClient(url, IN_AN_HOUR),
  'a given client that is late and queues nothing': (url) =>
    givenClient(url, { ...IN_AN_HOUR, enableOfflineQueue: false }),
};

const OUTAGES = ['nobody listens', 'connections are dead', 'it went away'] as const;

/** Gives where to connect, and has it fail. */
async function outage(kind: (typeof OUTAGES)[number]): Promise<{ url: string; begin: () => Promise<void> }> {
  if (kind === 'connections are dead') {
    const proxy = await proxyTo();
    return { url: proxy.url, begin: async () => proxy.blackhole(true) };
  }
  const server = await ownRedis();
  if (kind === 'nobody listens') await server.kill();
  return { url: server.url, begin: () => server.kill() };
}

const WAITS = [0, 200];
const work = (): never => {
  throw new Error('It ran.');
};

describe('while Redis is away', () => {
  afterEach(closeAll);

  it.each(OUTAGES)('and %s: calls fail with LockStoreError within waitMs + 1 s, with any client', async (kind) => {
    const { url, begin } = await outage(kind);
    const names = Object.keys(CONNECTIONS);
    const apps = await Promise.all(names.map((name) => startApp({ connection: CONNECTIONS[name]!(url) })));
    if (kind === 'it went away') for (const { locks } of apps) await locks.withLock(freshKey(), () => undefined);
    await begin();
    const call = async (client: string, { locks }: LockApp, waitMs: number) => {
      const from = performance.now();
      const error = await rejection<LockStoreError>(locks.withLock(freshKey(), { waitMs }, () => work()));
      const inTime = performance.now() - from < waitMs + 1_000 + FREEZE_MS;
      return { client, waitMs, inTime, code: error.code, retryable: error.retryable };
    };
    const calls = apps.flatMap((app, i) => WAITS.map((waitMs) => ({ app, waitMs, client: names[i]! })));
    const failures = await Promise.all(calls.map(({ client, app, waitMs }) => call(client, app, waitMs)));
    const expected = { inTime: true, code: 'LOCK_STORE', retryable: true };
    expect(failures).toEqual(calls.map(({ client, waitMs }) => ({ client, waitMs, ...expected })));
    for (const { locker } of apps) expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
  });
});

class Work {
  readonly ran: string[] = [];

  @Locked('work:<0>', { waitMs: 0 })
  async plain(id: string): Promise<string> {
    return this.#run(id);
  }

  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'fail' })
  async fail(id: string): Promise<string> {
    return this.#run(id);
  }

  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'skip' })
  async skip(id: string): Promise<string> {
    return this.#run(id);
  }

  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'run-unlocked' })
  async runUnlocked(id: string): Promise<string> {
    expect(() => currentLock()).toThrow(LockNotHeldError);
    return this.#run(id);
  }

  #run(id: string): string {
    this.ran.push(id);
    return id;
  }
}

describe('onUnavailable', () => {
  afterEach(closeAll);

  async function startAway(onUnavailable: OnUnavailable) {
    const proxy = await proxyTo();
    proxy.refuse(true);
    const { app, locks } = await startApp({ connection: proxy.url, onUnavailable }, { providers: [Work] });
    const reasons: string[] = [];
    locks.events.on('skipped', ({ reason }) => reasons.push(reason));
    return { work: app.get(Work), reasons };
  }

  it.each(['fail', 'skip', 'run-unlocked'] as const)(
    'of a method counts more than that of the module (%s)',
    async (ofModule) => {
      const { work, reasons } = await startAway(ofModule);
      const [failing, skipping, running] = [work.fail('f'), work.skip('s'), work.runUnlocked('r')];
      expect(await rejection(failing)).toBeInstanceOf(LockStoreError);
      expect([await skipping, await running]).toEqual([undefined, 'r']);
      expect({ ran: work.ran, reasons }).toEqual({ ran: ['r'], reasons: ['unavailable'] });
      const plain = work.plain('p').catch((error: Error) => error.name);
      expect(await plain).toBe({ fail: 'LockStoreError', skip: undefined, 'run-unlocked': 'p' }[ofModule]);
    },
  );

  it('`run-unlocked` warns each time, with the method and why', async () => {
    const { work } = await startAway('fail');
    const warned = jest.spyOn(Logger.prototype, 'warn').mockClear();
    await work.runUnlocked('1');
    await work.runUnlocked('2');
    const messages = warned.mock.calls
      .map(([text]) => String(text))
      .filter((text) => text.includes('WITHOUT its lock'));
    warned.mockRestore();
    expect(messages).toHaveLength(2);
    expect(messages[0]).toMatch(/^Work\.runUnlocked .*work:1/);
  });

  it('has no say about credentials that are refused', async () => {
    const { port } = await ownRedis(['--requirepass', 'secret']);
    const connection = `redis://:wrong@127.0.0.1:${port}`;
    const { app } = await startApp({ connection, onUnavailable: 'run-unlocked' }, { providers: [Work] });
    const work = app.get(Work);
    for (const call of [work.plain('p'), work.skip('s'), work.runUnlocked('r')]) {
      expect(await rejection(call)).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    }
    expect(work.ran).toEqual([]);
  });

  it('has no say about a lock that is busy', async () => {
    const [{ locks }, { app }] = [await startApp(), await startApp({}, { providers: [Work] })];
    const id = freshKey();
    await locks.acquire(`work:${id}`);
    expect(await rejection(app.get(Work).runUnlocked(id))).toMatchObject({ code: 'LOCK_BUSY' });
  });
});

describe('an app that closes while Redis is away', () => {
  afterEach(closeAll);

  it('opens no connection in place of a given client afterwards', async () => {
    const proxy = await proxyTo();
    const client = givenClient(proxy.url, {});
    const duplicated = jest.spyOn(client, 'duplicate');
    const { app, locks, locker } = await startApp({ connection: client });
    await locks.withLock(freshKey(), () => undefined);
    proxy.blackhole(true);
    // A command may take 3 s then, and the app has closed before that.
    await rejection(locks.acquire(freshKey(), { leaseMs: 12_000, waitMs: 0 }));
    await app.close();
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 25_000 });
    const opened = duplicated.mock.results.map(({ value }) => value as Redis);
    try {
      expect(opened.map(({ status }) => status)).toEqual(opened.map(() => 'end'));
    } finally {
      for (const connection of opened) connection.disconnect();
    }
  }, 40_000);
});

/** Long enough that no test waits for its end. */
const LONG = { leaseMs: 300_000, waitMs: 0 };

describe('when Redis is back', () => {
  afterEach(closeAll);

  it('a grant that came too late was given back, on a network that was slow', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    const { locks, locker } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    proxy.delayMs = 2_000;
    expect(await rejection(locks.acquire(key, LONG))).toBeInstanceOf(LockStoreError);
    proxy.delayMs = 0;
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 20_000 });
    await eventually(async () => 'released' in (await hashOf(admin, key)));
    expect(await (await startApp()).locks.tryAcquire(key)).not.toBeNull();
  });

  it('what a given client had queued leaves no lock behind', async () => {
    const server = await ownRedis();
    const client = givenClient(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
    const { locks, locker } = await startApp({ connection: client });
    await locks.withLock('warm', () => undefined);
    await server.kill();
    expect(await rejection(locks.acquire('late', LONG))).toBeInstanceOf(LockStoreError);
    await startAgain(server);
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 20_000 });
    // In the order in which the client sends: what it had queued has been carried out.
    await client.ping();
    const other = await startApp({ connection: server.url });
    expect(await eventually(() => other.locks.tryAcquire('late', LONG), { timeoutMs: 20_000 })).toBeTruthy();
  });

  it.each(Object.entries({ ...CONNECTIONS, ...RELUCTANT }))(
    'calls that wait go on by themselves (%s)',
    async (...by) => {
      const server = await ownRedis();
      const connection = by[1](server.url);
      const { locks } = await startApp({ connection });
      const held = await locks.acquire('key', { renew: false });
      const before = locks.acquire('key', { waitMs: Infinity });
      await eventually(async () => (await locks.inspect('key')).waiters === 1);
      await server.kill();
      const during = locks.acquire('key-2', { waitMs: 60_000 });
      await expect(locks.tryAcquire('key-3')).rejects.toBeInstanceOf(LockStoreError);
      await startAgain(server);
      await held.release();
      const locksThen = await Promise.all([before, during]);
      expect(locksThen.map((lock) => lock.held)).toEqual([true, true]);
    },
  );
});
