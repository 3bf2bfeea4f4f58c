import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { currentLock, Locked, LockStoreError, type OnUnavailable } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

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
  afterEach(closeAll);

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
