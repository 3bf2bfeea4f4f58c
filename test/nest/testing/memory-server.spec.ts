import { type AcquireReply, type AcquireRequest } from '../../../lib/core/store/lock-store.js';
import { NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, MemoryLockStore, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

let clock: ManualClock;
let server: MemoryLockServer;
let locks: RedisLockService;

const start = async (): Promise<RedisLockService> => {
  const imports = [RedisLockTestingModule.forRoot({ server, leaseMs: 30_000, waitMs: 5_000 })];
  return (await startModule({ imports })).get(RedisLockService);
};

beforeEach(async () => {
  clock = new ManualClock();
  server = new MemoryLockServer({ clock });
  locks = await start();
});

afterEach(async () => {
  server.start();
  const closing = closeAll();
  await clock.advance(60_000);
  await closing;
});

describe('a server', () => {
  const remembered = () => [...server.locks.all.keys()].map((key) => key.split(':').at(-1));

  it('forgets only locks that were not used for a quarter of an hour', async () => {
    for (const key of ['a', 'b', 'c']) await locks.withLock(key, () => undefined);
    const held = await locks.acquire('held');
    await clock.advance(599_000);
    await locks.withLock('c', () => undefined);
    expect(remembered()).toEqual(['a', 'b', 'c', 'held']);
    await clock.advance(361_000);
    await locks.inspect('a');
    expect(remembered()).toEqual(['c', 'held']);
    expect((await locks.inspect('a')).fencingToken).toBe(0);
    await held.release();
  });
});

describe('a store on a server', () => {
  function open(keepMs?: number) {
    const store = new MemoryLockStore(server, { keepMs });
    const nothing = (): void => undefined;
    store.listen({ onWakeUp: nothing, onListening: nothing, onMessagesMissed: nothing });
    let count = 0;
    const requestOf = (fields: Partial<AcquireRequest>): AcquireRequest => {
      const usual = { keys: ['a'], attempt: `${store.clientId}.${(count += 1)}`, owner: undefined, holder: 'host:1' };
      return { ...usual, mode: 'write', leaseMs: 30_000, waiterLeaseMs: 0, fair: true, permits: 0, ...fields };
    };
    const acquire = async (fields: Partial<AcquireRequest> = {}) => {
      const request = requestOf(fields);
      return { ...(await store.acquire(request)), request };
    };
    const release = (attempt: string, runOutcome?: 'done') =>
      store.release({ key: 'a', attempt, holdAtLeastMs: 0, leaseMs: 30_000, job: 'Job.run', runOutcome });
    return { store, acquire, release };
  }

  const tokenOf = (reply: AcquireReply): number => (reply.outcome === 'granted' ? reply.fencingTokens[0]! : 0);

  const claim = (ms: number) => {
    const terms = { calledAt: clock.now(), rememberMs: 600_000, rerunOnLoss: false } as const;
    return { claim: { job: 'Job.run', kind: 'at', ms, ...terms } as const };
  };

  it('remembers holds, then jobs, then permits longer than the rest, and grants greater tokens after that', async () => {
    clock.wallOffsetMs = 0;
    const { store, acquire, release } = open(60_000);
    const outcomeOf = async (fields: Partial<AcquireRequest>) => (await acquire(fields)).outcome;
    const first = await acquire(claim(1));
    await release(first.request.attempt, 'done');
    await clock.advance(300_000);
    expect(await outcomeOf(claim(1))).toBe('refused');
    const { request } = await acquire({ ...claim(2), leaseMs: 3_600_000 });
    await clock.advance(3_500_000);
    expect(await store.lastRun('a')).toMatchObject({ outcome: 'running' });
    await release(request.attempt, 'done');
    await clock.advance(50_000);
    expect(await outcomeOf(claim(2))).toBe('refused');
    await clock.advance(120_000);
    expect(await store.lastRun('a')).toBeNull();
    expect(await outcomeOf(claim(2))).toBe('granted');
    await store.setPermits('a', 3);
    await clock.advance(29 * 24 * 3_600_000);
    expect((await store.inspect('a')).permits).toMatchObject({ allowed: 3 });
    expect(await outcomeOf(claim(2))).toBe('granted');
    await clock.advance(31 * 24 * 3_600_000);
    await store.inspect('a');
    expect(await store.inspect('a')).toMatchObject({ permits: null, fencingToken: 0 });
    clock.wallOffsetMs = -clock.now();
    expect(tokenOf(await acquire())).toBeGreaterThan(tokenOf(first));
  });

  it('grants different tokens of different locks at one moment', async () => {
    const { acquire } = open();
    const granted = [await acquire(), await acquire({ keys: ['b'] }), await acquire({ keys: ['c'] })];
    expect(new Set(granted.map(tokenOf)).size).toBe(3);
  });

  it('ends a lease and a place in the queue in time when the clock is set back', async () => {
    const { store, acquire } = open();
    await acquire({ mode: 'read' });
    await acquire({ waiterLeaseMs: 10_000 });
    clock.wallOffsetMs -= 3_600_000;
    expect((await acquire({ mode: 'read' })).outcome).toBe('busy');
    await clock.advance(10_000);
    expect((await acquire({ mode: 'read', leaseMs: 1_000 })).outcome).toBe('granted');
    await clock.advance(20_000);
    expect((await acquire()).outcome).toBe('granted');
    await store.close();
  });

  it('lets waiters pass one whose store was closed', async () => {
    const [one, other] = [open(), open()];
    await one.acquire({ mode: 'read' });
    await other.acquire({ waiterLeaseMs: 30_000 });
    expect((await one.acquire({ mode: 'read' })).outcome).toBe('busy');
    await other.store.close();
    expect((await one.acquire({ mode: 'read' })).outcome).toBe('granted');
  });
});

describe('the history of a server', () => {
  it('is forgotten when its time is over, also when nothing more is written, and hands out copies', async () => {
    const { history } = new MemoryLockStore(server);
    const record = { ...NO_FACTS, event: 'acquired', key: 'k' } as const;
    const append = (id: string, keepMs: number) => {
      const now = clock.now();
      const batch = { id, now, keepMs, host: 'host', pid: 1, maxEntries: 100, records: [{ ...record, at: now }] };
      return history.append(batch);
    };
    await append('a.1', 60_000);
    const [entry] = await history.read({ limit: 10 });
    entry!.at.setTime(0);
    expect((await history.read({ limit: 10 }))[0]!.at.getTime()).not.toBe(0);
    await clock.advance(59_999);
    expect(await history.read({ limit: 10 })).toHaveLength(1);
    await clock.advance(1);
    expect(await history.read({ limit: 10 })).toEqual([]);
    await append('a.2', Infinity);
    expect((await history.read({ limit: 10 })).map(({ id }) => id)).toEqual(['a.2.0']);
  });
});

describe('a server that is stopped', () => {
  it('receives what it cannot do, if that concerns no lock', async () => {
    server.stop();
    await expect(locks.list()[Symbol.asyncIterator]().next()).rejects.toThrow(/^The store cannot list the locks: /);
    await expect(locks.history()).rejects.toThrow(/^The store cannot read the history of the locks: /);
  });

  it('keeps locks for holders that return in time: renewals continue, and others are excluded', async () => {
    const lock = await locks.acquire('a');
    server.stop();
    await clock.advance(25_000);
    server.start();
    await clock.advance(100_000);
    expect([lock.held, await locks.tryAcquire('a')]).toEqual([true, null]);
  });

  it('gets renewals of all locks at once after its return', async () => {
    const lock = await locks.acquire('a');
    let renewals = 0;
    locks.events.on('renewed', () => (renewals += 1));
    server.stop();
    server.start();
    await clock.advance(0);
    await clock.advance(0);
    expect([renewals, lock.held]).toEqual([1, true]);
  });

  it('learns of a release after its return, and the next caller gets the lock', async () => {
    const other = await start();
    const lock = await locks.acquire('a');
    const waiting = other.acquire('a', { waitMs: 60_000 });
    await clock.advance(10);
    server.stop();
    const released = lock.release();
    await clock.advance(2_000);
    await released;
    expect(other.activity).toEqual({ held: 0, waiting: 1 });
    server.start();
    await clock.advance(10_000);
    expect((await waiting).held).toBe(true);
  });
});
