import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { currentLock, Locked, LockStoreError, type OnUnavailable } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { spyOnLogs } from '../security/support.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { queued } from '../../support/redis/records.js';

afterEach(closeAll);

const OUTAGES = ['no server listens', 'connections are dead', 'it went away'] as const;

/** Gives where to connect, and has it fail. */
async function outage(kind: (typeof OUTAGES)[number]): Promise<{ url: string; begin: () => Promise<void> }> {
  if (kind === 'connections are dead') {
    const proxy = await proxyTo();
    return { url: proxy.url, begin: async () => proxy.blackhole(true) };
  }
  const server = await ownRedis();
  if (kind === 'no server listens') await server.kill();
  return { url: server.url, begin: () => server.kill() };
}

const WAITS = [0, 200];
const work = (): never => {
  throw new Error('It ran.');
};

describe('while Redis is away', () => {
  it.each(OUTAGES)('calls fail with LockStoreError after waitMs: %s', async (kind) => {
    const { url, begin } = await outage(kind);
    const { locks, locker } = await startApp({ connection: url });
    if (kind === 'it went away') await locks.withLock(freshKey(), () => undefined);
    await begin();
    const call = (waitMs: number) => rejection<LockStoreError>(locks.withLock(freshKey(), { waitMs }, () => work()));
    for (const error of await Promise.all(WAITS.map(call))) {
      expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    }
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
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
  async skip(id: string): Promise<string | undefined> {
    return this.#run(id);
  }

  @Locked('work:<0>', { waitMs: 0, onUnavailable: 'run-unlocked' })
  async runUnlocked(id: string): Promise<string> {
    expect(currentLock()).toMatchObject({ held: false, fencingToken: null, key: `work:${id}` });
    return this.#run(id);
  }

  #run(id: string): string {
    this.ran.push(id);
    return id;
  }
}

describe('onUnavailable', () => {
  async function startAway(onUnavailable: OnUnavailable) {
    const proxy = await proxyTo();
    proxy.refuse(true);
    const { app, locks } = await startApp({ connection: proxy.url, onUnavailable }, { providers: [Work] });
    const reasons: string[] = [];
    locks.events.on('skipped', ({ reason }) => reasons.push(reason));
    return { work: app.get(Work), reasons };
  }

  it.each(['fail', 'skip', 'run-unlocked'] as const)(
    'of a method overrides that of the module (%s)',
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

  it('logs a warning at each `run-unlocked`, with the method and the reason', async () => {
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

  it('does not apply to credentials that are refused', async () => {
    const { port } = await ownRedis(['--requirepass', 'secret']);
    const connection = `redis://:wrong@127.0.0.1:${port}`;
    const { app } = await startApp({ connection, onUnavailable: 'run-unlocked' }, { providers: [Work] });
    const work = app.get(Work);
    for (const call of [work.plain('p'), work.skip('s'), work.runUnlocked('r')]) {
      expect(await rejection(call)).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    }
    expect(work.ran).toEqual([]);
  });
});

/** A duplicate of ioredis, or of node-redis. */
describe('an app that closes while Redis is away', () => {
  it('opens no connection afterwards', async () => {
    const { admin, url } = await ownRedis();
    const proxy = await proxyTo(url);
    const { app, locks, locker } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    proxy.blackhole(true);
    // A command may take 2 s then, and the app has closed before that.
    await rejection(locks.acquire(freshKey(), { leaseMs: 8_000, waitMs: 0 }));
    await app.close();
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 25_000 });
    proxy.blackhole(false);
    await eventually(
      async () =>
        String(await admin.call('CLIENT', 'LIST'))
          .trim()
          .split('\n').length === 1,
    );
  }, 40_000);
});

const isAppend = (text: string): boolean => text.startsWith('evalsha ') && text.includes('{history}');

describe('a history that cannot be written', () => {
  it('because something else is under its name does not touch the locks', async () => {
    const { admin, url } = await ownRedis();
    await admin.set('lock:{history}', 'not a stream');
    const { lines } = spyOnLogs();
    const { locks } = await startApp({ connection: url, history: true });
    for (let i = 0; i < 20; i += 1) expect(await locks.withLock(freshKey(), () => i)).toBe(i);
    expect(await rejection(locks.history())).toMatchObject({
      code: 'LOCK_STORE',
      key: undefined,
      message: expect.stringMatching(/^Redis could not read the history of the locks: WRONGTYPE /),
    });
    await eventually(() => lines().some((line) => line.includes('The history of locks cannot be written: ')));
    expect(lines().join('\n')).toContain('Redis could not write the history of the locks: WRONGTYPE ');
    expect(lines().join('\n')).not.toContain('{history}');
    await admin.del('lock:{history}');
    await eventually(async () => (await locks.history()).length === 40);
  });

  it('because its answer is lost has each entry once', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const { locks } = await startApp({ connection: proxy.url, history: true });
    const key = freshKey();
    await locks.withLock(key, () => undefined);
    await locks.history();
    proxy.dropNextReply(isAppend);
    await locks.withLock(key, () => undefined);
    await eventually(() => proxy.droppedReplies === 1);
    await eventually(async () => (await locks.history({ key })).length >= 4, { timeoutMs: 20_000 });
    const events = (await locks.history({ key })).map(({ event }) => event);
    expect(events).toEqual(['released', 'acquired', 'released', 'acquired']);
  });
});

/** Of each kind ten within ten seconds, and their number; the machine may need many times ten seconds. */
const MAX_LINES = 300;

/** Enough that an outage with a timer, a loop or a line for each would show. */
const CALLS = 3_000;

const ofEvery = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/**
 * Calls by the thousand, ten at a time; gives how they ended, how many timers there were at most that are not theirs, and how
 * many releases.
 */
async function traffic(app: LockApp, call: (i: number) => Promise<unknown>) {
  let [otherTimers, releases] = [0, 0];
  const look = (): void => {
    const { timers, waiting, locks, releasing } = app.locker.live;
    // Each call that is under way has one for its limit and one for its next try, and each lock one for its watchdog.
    otherTimers = Math.max(otherTimers, timers - 2 * waiting - locks);
    releases = Math.max(releases, releasing);
  };
  const calls: Promise<unknown>[] = [];
  while (calls.length < CALLS) {
    for (let i = 0; i < 10; i += 1) calls.push(call(calls.length).catch((error: { code: string }) => error.code));
    await ofEvery(10);
    look();
  }
  const outcomes = await Promise.all(calls);
  look();
  return { otherTimers, releases, outcomes };
}

describe('an outage with traffic', () => {
  let lines: string[] = [];
  beforeEach(() => {
    lines = [];
    for (const level of ['warn', 'error'] as const) {
      jest.spyOn(Logger.prototype, level).mockImplementation((...[line]: unknown[]) => void lines.push(String(line)));
    }
  });
  afterEach(async () => {
    await closeAll();
    jest.restoreAllMocks();
  });

  it('uses a bounded number of timers, releases and log lines while connections are refused', async () => {
    const proxy = await proxyTo();
    proxy.refuse(true);
    const app = await startApp({ connection: proxy.url });
    const { otherTimers, releases, outcomes } = await traffic(app, () =>
      app.locks.acquire(freshKey(), { leaseMs: 2_000, waitMs: 0 }),
    );
    expect(new Set(outcomes)).toEqual(new Set(['LOCK_STORE']));
    expect(otherTimers).toBeLessThanOrEqual(5);
    // Nothing was ever sent.
    expect(releases).toBe(0);
    expect(lines.length).toBeLessThanOrEqual(MAX_LINES);
    proxy.refuse(false);
    const lock = await eventually(() => app.locks.tryAcquire(freshKey()));
    expect(lock).toMatchObject({ held: true });
  }, 120_000);

  it('gives back what it can when Redis is back, if it began while calls were under way', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    const [app, other] = [
      await startApp({ connection: proxy.url, leaseMs: 600_000 }),
      await startApp({ connection: url }),
    ];
    const [held, busy] = [0, 1].map(() => Array.from({ length: 200 }, () => freshKey()));
    const locks = await Promise.all(held!.map((key) => app.locks.acquire(key)));
    await Promise.all(busy!.map((key) => other.locks.acquire(key)));
    const abort = new AbortController();
    const waits = busy!.map((key) => rejection(app.locks.acquire(key, { signal: abort.signal })));
    await eventually(async () => (await queued(admin, busy!.at(-1)!)) === 1);

    const options = { leaseMs: 2_000, waitMs: 0 };
    const calls = traffic(app, (i) => {
      if (i === 500) proxy.blackhole(true);
      return app.locks.acquire(freshKey(), options);
    });
    await eventually(() => app.locker.live.releasing > 0);
    abort.abort();
    const releases = locks.map((lock) => lock.release());
    const { otherTimers, outcomes } = await calls;
    await Promise.all([...waits, ...releases]);
    expect(outcomes.slice(-1_000)).toEqual(Array.from({ length: 1_000 }, () => 'LOCK_STORE'));
    // The releases of the holders are waited for, with a limit each.
    expect(otherTimers).toBeLessThanOrEqual(locks.length + 5);

    proxy.blackhole(false);
    await eventually(() => app.locker.live.releasing === 0, { timeoutMs: 30_000 });
    expect(lines.length).toBeLessThanOrEqual(MAX_LINES);
    await Promise.all(held!.map((key) => untilFree(other, key)));
    expect(await Promise.all(busy!.map((key) => queued(admin, key)))).toEqual(busy!.map(() => 0));
  }, 120_000);
});
