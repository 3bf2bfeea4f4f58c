import { hostname } from 'node:os';
import { Injectable } from '@nestjs/common';
import { type LockWaitTimeoutError, Locked } from '../../../lib/index.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { openStore, ownPlace } from '../support/stores.js';
import { itWithPermits, itWithQueue } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const PATIENT = { waitMs: 25_000 };

@Injectable()
class Reports {
  readonly ready = gate();

  @Locked('ship:<0>', { note: (id: string) => `parcel ${id}`, waitMs: 20_000 })
  async ship(_id: string): Promise<void> {
    await this.ready.opened;
  }
}

describe('inspect', () => {
  afterEach(closeAll);

  it('reports that a lock is free, and writes nothing', async () => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    const free = {
      key: 'never-used',
      mode: 'free',
      holders: [],
      waiters: 0,
      queue: [],
      permits: null,
      fencingToken: 0,
      readAt: expect.any(Date),
    };
    expect(await locks.inspect('never-used')).toEqual(free);
    expect(await locks.isLocked('never-used')).toBe(false);
    expect(await place.keys()).toEqual([]);
    const { fencingToken } = await locks.withLock('used', (lock) => lock);
    expect(await locks.inspect('used')).toEqual({ ...free, key: 'used', fencingToken });
  });

  it('reports who holds a lock, where, since when and for how long, and how many wait', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const before = await store.now();
    const lock = await a.locks.acquire(key, { leaseMs: 60_000, owner: 'order 7' });
    const after = await store.now();
    const waiting = [b.locks.acquire(key, PATIENT), b.locks.acquire(key, { ...PATIENT, mode: 'read' })];
    await untilWaiting(b, key, 2);
    const state = await b.locks.inspect(key);
    const { fencingToken } = lock;
    expect(state).toMatchObject({ key, mode: 'write', waiters: 2, fencingToken });
    expect(await b.locks.isLocked(key)).toBe(true);
    const [holder] = state.holders;
    const host = hostname().slice(0, 40);
    expect(holder).toMatchObject({
      owner: 'order 7',
      mode: 'write',
      host,
      pid: process.pid,
      where: '',
      fencingToken,
    });
    expect(holder!.attempt).toMatch(/^\S+\.\S+$/);
    expect(holder!.since).toBeInstanceOf(Date);
    expect(holder!.since.getTime()).toBeGreaterThanOrEqual(before);
    expect(holder!.since.getTime()).toBeLessThanOrEqual(after);
    expect(holder!.remainingMs).toBeGreaterThan(30_000);
    expect(holder!.remainingMs).toBeLessThanOrEqual(60_000);
    await lock.release();
    await Promise.all(waiting.map(async (next) => (await next).release()));
  });

  itWithPermits('reports the permits that the present holders count, the first holder first', async () => {
    const [{ locks }, key] = [await startApp(), freshKey()];
    const permitsOf = async (): Promise<unknown> => (await locks.inspect(key)).permits;
    await (await locks.acquire(key, { mode: 'read', permits: 5 })).release();
    const writer = await locks.acquire(key);
    await writer.downgrade();
    expect(await permitsOf()).toBeNull();
    await writer.release();
    const first = await locks.acquire(key, { mode: 'read', permits: 3, note: 'first' });
    const second = await locks.acquire(key, { mode: 'read', permits: 2, note: 'second' });
    expect(await permitsOf()).toEqual({ allowed: 2, used: 2, available: 0 });
    const adopted = await locks.adopt(await first.transfer());
    expect((await locks.inspect(key)).holders.map(({ fencingToken }) => fencingToken)).toEqual([
      first.fencingToken,
      second.fencingToken,
    ]);
    await second.release();
    expect(await permitsOf()).toEqual({ allowed: 3, used: 1, available: 2 });
    await adopted.release();
  });

  itWithQueue('lists the waiters: where, with which label, since when, until when, and in which order', async () => {
    const start = () => startApp({}, { providers: [Reports] });
    const [a, b, store] = [await start(), await start(), openStore()];
    const key = `ship:${freshKey()}`;
    const lock = await a.locks.acquire(key, { note: 'the van is full' });
    const before = await store.now();
    const shipping = b.app.get(Reports).ship(key.slice('ship:'.length));
    await untilWaiting(b, key, 1);
    const other = a.locks.acquire(key, { waitMs: Infinity, mode: 'read', owner: 'job 7' });
    await untilWaiting(a, key, 2);
    const { holders, queue } = await a.locks.inspect(key);
    expect(holders).toMatchObject([{ note: 'the van is full' }]);
    const caller = { host: hostname().slice(0, 40), pid: process.pid };
    expect(queue).toMatchObject([
      { ...caller, place: 1, mode: 'write', where: 'Reports.ship', note: `parcel ${key.slice('ship:'.length)}` },
      { ...caller, place: 2, mode: 'read', where: '', note: '', owner: 'job 7', until: null },
    ]);
    const { since, until } = queue[0]!;
    expect(since.getTime()).toBeGreaterThanOrEqual(before);
    expect(since.getTime()).toBeLessThanOrEqual(await store.now());
    expect(until!.getTime() - since.getTime()).toBe(20_000);
    const refused = await rejection<LockWaitTimeoutError>(
      a.locks.acquire(key, { waitMs: 100, mode: 'read', owner: 'job 8' }),
    );
    expect(refused.holder).toBe(`${caller.host}:${caller.pid} (the van is full)`);
    expect(refused.message).toContain(`held by ${refused.holder}`);
    expect(refused.message).toContain(', with 2 waiting ahead');
    await lock.release();
    b.app.get(Reports).ready.open();
    await shipping;
    await (await other).release();
    expect(await a.locks.inspect(key)).toMatchObject({ mode: 'free', queue: [] });
  });
});
