import { Locked, type LockHistoryEntry, type RedisLockModuleOptions } from '../../../lib/index.js';
import { keysOf } from '../../support/apps/listed.js';
import { type LockApp, closeAll, freshKey, openAdmins, startApp } from '../../support/apps/lock-app.js';
import { topology } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';

/** Apps of one history, which no other test has. */
let keyPrefix = '';
const start = (options: RedisLockModuleOptions = {}, metadata = {}): Promise<LockApp> =>
  startApp({ history: true, keyPrefix, ...options }, metadata);

const eventsOf = (entries: readonly LockHistoryEntry[]): string[] => entries.map(({ event }) => event);

/** Waits until a reading instance sees this number of entries, which others may still be writing. */
async function entriesSeen({ locks }: LockApp, count: number, key?: string): Promise<readonly LockHistoryEntry[]> {
  const query = key === undefined ? {} : { key };
  await eventually(async () => (await locks.history(query)).length >= count);
  return locks.history(query);
}

class Orders {
  @Locked('<0>', { note: (_key: string, order: string) => order })
  async charge(_key: string, _order: string): Promise<void> {}

  @Locked('<0>', { ifBusy: 'skip' })
  async skip(_key: string): Promise<void> {}
}

class Jobs {
  @Locked('<0>', { oncePer: 3_600_000 })
  async run(_key: string): Promise<void> {}

  @Locked('<0>', { ifBusy: 'share' })
  async share(_key: string, entered: ReturnType<typeof gate>, done: ReturnType<typeof gate>): Promise<void> {
    entered.open();
    await done.opened;
  }
}

describe('the history', () => {
  beforeEach(() => void (keyPrefix = `lock:${freshKey('history')}:`));
  afterEach(closeAll);

  it('lists what has happened to a lock, the newest first', async () => {
    const [app, key] = [await start({}, { providers: [Orders] }), freshKey()];
    await app.app.get(Orders).charge(key, 'order 17');
    const [released, acquired, ...others] = await app.locks.history();
    const common = { key, mode: 'write', where: 'Orders.charge', note: 'order 17', pid: process.pid };
    expect(released).toMatchObject({ ...common, event: 'released', ms: expect.any(Number) });
    expect(acquired).toMatchObject({ ...common, event: 'acquired', ms: expect.any(Number), reason: undefined });
    expect(released!.fencingToken).toBe(acquired!.fencingToken);
    expect(acquired!.fencingToken).toBeGreaterThan(0);
    expect(released!.at.getTime()).toBeGreaterThanOrEqual(acquired!.at.getTime());
    expect(released!.id).not.toBe(acquired!.id);
    expect(others).toEqual([]);
  });

  it('shows which call waited for which holder, and how long', async () => {
    const [a, b, key] = [await start(), await start(), freshKey()];
    const first = await a.locks.acquire(key, { note: 'the first' });
    const waits = new Promise((resolve) => void b.locks.events.on('waiting', resolve));
    const second = b.locks.acquire(key, { note: 'the second' });
    await waits;
    await first.release();
    await (await second).release();
    const entries = await entriesSeen(a, 5, key);
    const ofSecond = entries.filter(({ note }) => note === 'the second');
    expect(eventsOf(ofSecond)).toEqual(['released', 'acquired', 'waited']);
    expect(ofSecond[2]).toMatchObject({ reason: expect.stringContaining('(the first)'), ms: undefined });
  });

  it('lists failures, skipped calls, losses, and the user who revoked a lock', async () => {
    const [app, other, key] = [await start({}, { providers: [Orders] }), await start(), freshKey()];
    // If it does not listen yet when the lock is revoked, a renewal reports it, after a third of the lease.
    const held = await other.locks.acquire(key, { leaseMs: 9_000 });
    await rejection(app.locks.acquire(key, { waitMs: 0 }));
    await app.app.get(Orders).skip(key);
    await app.locks.forceRelease(key, { by: 'ann' });
    await eventually(() => held.signal.aborted);
    const entries = await entriesSeen(other, 6, key);
    const found = (event: string) => entries.filter((entry) => entry.event === event);
    expect(found('failed')).toMatchObject([
      { reason: 'busy', where: 'Orders.skip' },
      { reason: 'busy', ms: expect.any(Number) },
    ]);
    expect(found('skipped')).toMatchObject([{ reason: 'busy', where: 'Orders.skip', ms: undefined }]);
    expect(found('forced')).toMatchObject([{ by: 'ann', mode: undefined, fencingToken: undefined }]);
    expect(found('lost')).toMatchObject([{ reason: 'revoked', ms: expect.any(Number), mode: 'write' }]);
  });

  it('is read by an instance that writes none, and is none without the option', async () => {
    const [writer, reader, key] = [await start(), await start({ history: false }), freshKey()];
    await writer.locks.withLock(key, () => undefined);
    expect(eventsOf(await entriesSeen(reader, 2))).toEqual(['released', 'acquired']);
    await reader.locks.withLock(freshKey('unseen'), () => undefined);
    expect(await reader.locks.history()).toHaveLength(2);
  });

  it('has no entry from before 1970', async () => {
    const [app, key] = [await start(), freshKey()];
    await app.locks.withLock(key, () => undefined);
    await entriesSeen(app, 2);
    const times = [-8_640_000_000_000_000, -60_000, -10_000, -1, 0];
    expect(await Promise.all(times.map((ms) => app.locks.history({ before: new Date(ms) })))).toEqual(
      times.map(() => []),
    );
  });

  it('leaves out the calls that are skipped because another one does their work', async () => {
    const [a, b] = [await start({}, { providers: [Jobs] }), await start({}, { providers: [Jobs] })];
    const [key, shared] = [freshKey('job'), freshKey('shared')];
    for (const { app } of [a, b]) await app.get(Jobs).run(key);
    const [entered, done] = [gate(), gate()];
    const first = a.app.get(Jobs).share(shared, entered, done);
    await entered.opened;
    const second = a.app.get(Jobs).share(shared, entered, done);
    done.open();
    await Promise.all([first, second]);
    const entries = await entriesSeen(a, 4);
    await b.locks.history();
    expect(eventsOf(entries)).toEqual(['released', 'acquired', 'released', 'acquired']);
    expect(await a.locks.history()).toHaveLength(4);
  });

  it('has at most the requested number of entries', async () => {
    const [app, key] = [await start(), freshKey()];
    for (let i = 0; i < 5; i += 1) await app.locks.withLock(`${key}:${i}`, () => undefined);
    const entries = await app.locks.history({ limit: 3 });
    expect(entries.map((entry) => [entry.key, entry.event])).toEqual([
      [`${key}:4`, 'released'],
      [`${key}:4`, 'acquired'],
      [`${key}:3`, 'released'],
    ]);
    for (const limit of [0, 10_001, 1.5, '5']) {
      expect(await rejection(app.locks.history({ limit: limit as number }))).toMatchObject({
        code: 'LOCK_CONFIGURATION',
        message: expect.stringContaining('`limit`'),
      });
    }
    expect(await rejection(app.locks.history({ key: '' }))).toMatchObject({ code: 'LOCK_KEY' });
    expect(await rejection(app.locks.forceRelease(key, { by: '' }))).toMatchObject({ code: 'LOCK_CONFIGURATION' });
  });

  it('keeps about the number of entries in the option, the newest ones', async () => {
    const [app, key] = [await start({ history: { maxEntries: 100 } }), freshKey()];
    await Promise.all(Array.from({ length: 300 }, (_, i) => app.locks.withLock(`${key}:${i}`, () => undefined)));
    await app.locks.withLock(key, () => undefined);
    const entries = await app.locks.history({ limit: 10_000 });
    expect(entries.length).toBeGreaterThanOrEqual(100);
    expect(entries.length).toBeLessThanOrEqual(300);
    expect(eventsOf(entries.filter((entry) => entry.key === key))).toEqual(['released', 'acquired']);
  });

  it('has the entries of an app that was closed, and its locks', async () => {
    const [app, reader, key] = [await start({ drainMs: 0 }), await start(), freshKey()];
    await app.locks.acquire(key);
    await app.close();
    expect(eventsOf(await reader.locks.history({ key }))).toEqual(['lost', 'acquired']);
  });

  it('is not listed as a lock, and ends by itself', async () => {
    const [app, key] = [await start({ history: { keepMs: 60_000 } }), freshKey()];
    await app.locks.withLock(key, async () => {
      await app.locks.history();
      expect(await keysOf(app)).toEqual([key]);
    });
    expect(await app.locks.history()).toHaveLength(2);
    for (const admin of openAdmins()) {
      const ttl = await admin.pttl(`${keyPrefix}{history}`);
      // A master of a quorum may have been away.
      if (ttl === -2 && topology.name.startsWith('quorum')) continue;
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(60_000);
    }
  });
});
