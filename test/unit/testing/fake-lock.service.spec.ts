import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  Leader,
  leadershipOf,
  LockBusyError,
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../lib/index.js';
import { FakeLockModule, FakeLockService, ManualClock } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

let locks: FakeLockService;

beforeEach(() => void (locks = new FakeLockService()));

describe('a fake without rules', () => {
  it('grants at once a lock that is held already, even for writing', async () => {
    const held = [await locks.acquire('a'), await locks.acquire('a', { waitMs: 0 }), await locks.tryAcquire('a')];
    expect(held.map((lock) => lock?.held)).toEqual([true, true, true]);
    expect(await locks.withLock(['a', 'b'], () => 'ran')).toBe('ran');
  });

  it('does not exclude callers of its process either', async () => {
    const options = { mode: 'read', permits: 20, perInstance: 1, waitMs: 0 } as const;
    expect((await locks.acquire('a', options)).held && (await locks.acquire('a', options)).held).toBe(true);
    expect(locks.calls.map((call) => call.options.perInstance)).toEqual([1, 1]);
  });

  it('grants tokens that do not fit an INT, and forgets unused locks', async () => {
    const clock = new ManualClock(0);
    const fake = new FakeLockService({ clock });
    const tokenOf = (key: string) => fake.withLock(key, ({ fencingToken }) => fencingToken);
    expect(await tokenOf('a')).toBeGreaterThan(2 ** 32);
    expect((await fake.inspect('a')).fencingToken).toBeGreaterThan(2 ** 32);
    await clock.advance(960_000);
    await tokenOf('b');
    expect((await fake.inspect('a')).fencingToken).toBe(0);
  });

  it('checks the options of a quorum as a real one does', async () => {
    const quorum = new FakeLockService({ connection: ['redis://a', 'redis://b', 'redis://c'] });
    await expect(quorum.acquire('a', { mode: 'read', permits: 2 })).rejects.toBeInstanceOf(LockConfigurationError);
    await expect(quorum.acquire('a', { fair: true })).rejects.toBeInstanceOf(LockConfigurationError);
    expect(await quorum.withLock('a', () => 'ran')).toBe('ran');
  });

  it('rejects wrong keys and options as a real one does, and does not record them', async () => {
    await expect(locks.acquire('')).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire('x'.repeat(1_025))).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire(Array.from({ length: 17 }, (_, i) => `k${i}`))).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire('a', { waitMs: -1 })).rejects.toBeInstanceOf(LockConfigurationError);
    expect(locks.calls).toEqual([]);
  });

  it('uses its own options as defaults of calls, and checks them', async () => {
    const short = new FakeLockService({ leaseMs: 5_000, waitMs: 0, maxHoldMs: 9_000 });
    await short.acquire('a');
    expect(short.calls).toMatchObject([{ options: { leaseMs: 5_000, waitMs: 0, maxHoldMs: 9_000 } }]);
    expect(() => new FakeLockService({ leaseMs: 0 })).toThrow(LockConfigurationError);
  });
});

describe('the calls of a fake', () => {
  it('contain the keys, mode and options of each request in order, including refused ones', async () => {
    locks.refuse('b');
    await locks.withLock('a', { leaseMs: 5_000 }, () => undefined);
    await locks.tryAcquire('b', { mode: 'read', permits: 3 });
    await locks.withLock(['d', 'c', 'd'], () => locks.withLock('c', () => undefined));
    expect(locks.calls).toMatchObject([
      { keys: ['a'], mode: 'write', where: '', options: { leaseMs: 5_000, waitMs: 10_000, renew: true } },
      { keys: ['b'], mode: 'read', where: '', options: { permits: 3, waitMs: 0 } },
      { keys: ['d', 'c'], mode: 'write' },
    ]);
    expect(locks.keys).toEqual(['a', 'b', 'd', 'c']);
  });

  it('are forgotten by reset(), and so are the rules, while held locks stay held', async () => {
    const held = await locks.acquire('a');
    locks.refuse().fail('b');
    locks.reset();
    expect([locks.calls, locks.keys]).toEqual([[], []]);
    expect([(await locks.acquire('b')).held, held.held, locks.lose('a')]).toEqual([true, true, 1]);
  });
});

describe('a rule of a fake', () => {
  it('that fills the queue refuses calls with `maxWaiters`, and makes the lock busy for others', async () => {
    locks.fillQueue('a');
    const error = await rejection(locks.acquire('a', { waitMs: Infinity, maxWaiters: 3 }));
    expect(error).toBeInstanceOf(LockBusyError);
    expect(error).toMatchObject({ key: 'a', maxWaiters: 3 });
    expect(await rejection(locks.acquire('a'))).toBeInstanceOf(LockWaitTimeoutError);
    expect(await locks.tryAcquire('a')).toBeNull();
    expect((await locks.grant('a').acquire('a', { maxWaiters: 3 })).held).toBe(true);
  });

  it.each([
    ['a clock that the test moves', () => new FakeLockService({ clock: new ManualClock(0) })],
    ['the fake timers of a runner', () => (jest.useFakeTimers(), new FakeLockService())],
  ])('ends calls at once with %s', async (_name, create) => {
    const fake = create().timeOut('a').fail('b');
    try {
      for (const key of ['a', ['c', 'a']]) {
        expect(await rejection(fake.acquire(key, { waitMs: 60_000 }))).toBeInstanceOf(LockWaitTimeoutError);
      }
      for (const waitMs of [0, 60_000]) {
        const waitedMs = Math.max(waitMs, 1_000);
        const error = await rejection(fake.acquire('b', { waitMs }));
        expect(error).toBeInstanceOf(LockStoreError);
        expect(error.message).toContain(`${waitedMs} ms`);
      }
      expect(fake.calls.map(({ options }) => options.waitMs)).toEqual([60_000, 60_000, 0, 60_000]);
      expect(fake.activity.waiting).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });
});

describe('the locks of a rule', () => {
  const busy = async (...keys: string[]) =>
    Promise.all(keys.map(async (key) => ((await locks.tryAcquire(key)) === null ? key : '')));

  it('are one lock for a key, and not locks whose keys only contain it', async () => {
    locks.refuse('order:1');
    expect(await busy('order:1', 'order:12', 'an order:1')).toEqual(['order:1', '', '']);
  });

  it.each([[/^order:\d$/], [/^order:\d$/g], [/order:\d$/y]])(
    'are those whose keys match the pattern %s, at every request',
    async (pattern) => {
      locks.refuse(pattern);
      expect(await busy('order:1', 'order:x', 'order:1')).toEqual(['order:1', '', 'order:1']);
      expect(pattern.lastIndex).toBe(0);
    },
  );

  it('are all when none is named, and include requests for several keys of which one matches', async () => {
    locks.refuse('b');
    await expect(locks.acquire(['a', 'b'])).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect(await busy('a')).toEqual(['']);
    locks.refuse();
    expect(await busy('a', 'c')).toEqual(['a', 'c']);
  });

  it('are decided for each key of a request: the latest rule of one key grants no other key', async () => {
    locks.refuse('b').grant('a');
    expect(await locks.tryAcquire(['a', 'b'])).toBeNull();
    locks.fail().grant('a').grant('b');
    expect((await locks.acquire(['a', 'b'])).held).toBe(true);
    await expect(locks.acquire(['a', 'c'])).rejects.toBeInstanceOf(LockStoreError);
  });

  it('are decided by the latest rule that matches', async () => {
    locks.refuse().grant('a').grant(/^b/).refuse('b2');
    expect(await busy('a', 'b1', 'b2', 'c')).toEqual(['', '', 'b2', 'c']);
    locks.grant();
    expect(await busy('a', 'b2', 'c')).toEqual(['', '', '']);
    locks.grant('a').fail();
    await expect(locks.acquire('a')).rejects.toBeInstanceOf(LockStoreError);
  });
});

describe('lose()', () => {
  it('passes its reason to the error and to the `lost` event', async () => {
    const reasons: string[] = [];
    locks.events.on('lost', ({ reason }) => reasons.push(reason));
    const lock = await locks.acquire('a');
    locks.lose('a', 'taken');
    expect([lock.held, (lock.signal.reason as LockLostError).reason, reasons]).toEqual([false, 'taken', ['taken']]);
  });

  it('counts matching locks that are held, and none that were released or lost before or come later', async () => {
    const [a, b, c] = await Promise.all(['order:1', 'order:2', 'c'].map((key) => locks.acquire(key)));
    await a!.release();
    expect([locks.lose(/^order:/g), locks.lose(/^order:/g), locks.lose()]).toEqual([1, 0, 1]);
    expect([b!.held, c!.held, (await locks.acquire('c')).held]).toEqual([false, false, true]);
  });

  it('loses a lock of several keys by any of them', async () => {
    const lock = await locks.acquire(['a', 'b']);
    expect([locks.lose('b'), lock.held]).toEqual([1, false]);
  });
});

describe('jest.spyOn', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('observes and replaces the methods of a fake', async () => {
    const acquire = jest.spyOn(locks, 'acquire');
    await locks.acquire('a', { waitMs: 0 });
    expect(acquire).toHaveBeenCalledWith('a', { waitMs: 0 });
    jest.spyOn(locks, 'isLocked').mockResolvedValue(true);
    expect(await locks.isLocked('free')).toBe(true);
    jest.spyOn(locks, 'withLock').mockResolvedValue('instead');
    expect(await locks.withLock('a', () => 'ran')).toBe('instead');
  });
});

describe('a fake, as a real service does,', () => {
  it('waits until a lock is free as its rules say', async () => {
    await locks.waitUntilFree(['a', 'b']);
    const held = await locks.acquire('a');
    await expect(locks.waitUntilFree('a', { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    await held.release();
    await locks.waitUntilFree('a', { waitMs: 0 });
    locks.refuse('a').fail('b');
    await expect(locks.waitUntilFree('a')).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await expect(locks.waitUntilFree('a', { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    await expect(locks.waitUntilFree('b')).rejects.toBeInstanceOf(LockStoreError);
  });
});

@Leader('reports')
@Injectable()
class Reports {}

describe('a leader with fake locks', () => {
  it('is elected, may be demoted, and is elected again', async () => {
    const told: string[] = [];
    const leadership = locks.lead('reports', {
      onElected: () => told.push('elected'),
      onDemoted: (_term, reason) => told.push(reason),
    });
    await leadership.waitUntilLeader();
    locks.refuse('reports').lose('reports', 'revoked');
    expect(leadership.isLeader()).toBe(false);
    locks.grant('reports');
    await leadership.waitUntilLeader();
    await leadership.stop();
    expect(told).toEqual(['elected', 'revoked', 'elected', 'stopped']);
    expect(locks.keys).toEqual(['reports', 'reports']);
  });

  it('campaigns while Redis is away, and is elected when it is back', async () => {
    locks.fail('reports');
    const leadership = locks.lead('reports');
    const elected = leadership.waitUntilLeader();
    await eventually(() => locks.activity.waiting === 1);
    expect(leadership.isLeader()).toBe(false);
    locks.grant();
    await elected;
    await leadership.stop();
  });

  it('leads in each app that uses the same fake, one after the other', async () => {
    const startAndClose = async (): Promise<void> => {
      const imports = [FakeLockModule.forRoot(locks)];
      const app = await (await Test.createTestingModule({ imports, providers: [Reports] }).compile()).init();
      const leadership = leadershipOf(app.get(Reports));
      await leadership.waitUntilLeader();
      await app.close();
      expect(leadership.isLeader()).toBe(false);
    };
    await startAndClose();
    await startAndClose();
    expect(locks.activity).toEqual({ held: 0, waiting: 0 });
  });
});
