import { setImmediate as turn } from 'node:timers/promises';
import { type Lock, LockLostError, LockNotHeldError, LockReentryError } from '../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { deleteLock, ownPlace } from './support/stores.js';
import { topology } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { gate } from '../support/waiting/gate.js';
import { rejection } from '../support/waiting/rejection.js';

const PATIENT = { waitMs: 25_000 };
const READ = { mode: 'read', ...PATIENT } as const;

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

/** Every other acquisition is fair, where any can be. */
const isFair = (turn: boolean): boolean => turn && topology.supports.queue;

describe('downgrade', () => {
  afterEach(closeAll);

  it('admits waiting readers but no writer, and keeps the fencing token and the lease', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 60_000 });
    const token = lock.fencingToken;
    const readers: Promise<Lock>[] = [];
    for (const app of [a, b]) {
      readers.push(app.locks.acquire(key, READ));
      await untilWaiting(a, key, readers.length);
    }
    let written = false;
    const writer = b.locks.acquire(key, PATIENT).then((granted) => {
      written = true;
      return granted;
    });
    await untilWaiting(b, key, 3);
    await lock.downgrade();
    const shared = await Promise.all(readers);
    expect([lock.mode, lock.fencingToken, lock.held, lock.signal.aborted]).toEqual(['read', token, true, false]);
    expect(lock.remainingMs).toBeGreaterThan(30_000);
    // The writer waits behind the reader of its process, and asks the store when that one has its grant.
    await untilWaiting(a, key, 1);
    const state = await a.locks.inspect(key);
    expect(state.mode).toBe('read');
    expect(state.holders.map(({ mode }) => mode)).toEqual(['read', 'read', 'read']);
    expect(state.holders.map(({ fencingToken }) => fencingToken)).toContain(token);
    for (const one of shared) await one.release();
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(written).toBe(false);
    await lock.extend(90_000);
    await lock.release();
    expect((await writer).fencingToken).toBeGreaterThan(Math.max(...shared.map(({ fencingToken }) => fencingToken)));
  });

  it('leaves no gap in which a writer is granted', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    for (let round = 0; round < 40; round++) {
      const lock = await a.locks.acquire(key, PATIENT);
      const waiting = b.locks.acquire(key, { ...PATIENT, fair: isFair(round % 2 === 0) });
      const stop = new AbortController();
      await untilWaiting(a, key, 1);
      const intruders: Lock[] = [];
      const intrude = async (fair: boolean) => {
        while (!stop.signal.aborted) {
          const granted = await b.locks.tryAcquire(key, { fair });
          if (granted) intruders.push(granted);
          await turn();
        }
      };
      const intruding = [intrude(isFair(true)), intrude(false)];
      await lock.downgrade();
      for (let i = 0; i < 5; i++) await turn();
      stop.abort();
      await Promise.all(intruding);
      expect(intruders).toEqual([]);
      const state = await a.locks.inspect(key);
      expect(state).toMatchObject({ mode: 'read', holders: [{ mode: 'read' }] });
      await untilWaiting(a, key, 1);
      await lock.release();
      await (await waiting).release();
    }
  });

  it('does nothing the second time, and sends no command for a read lock', async () => {
    const place = await ownPlace();
    const { locks } = await startApp({ ...place.options, leaseMs: 600_000 });
    const lock = await locks.acquire('written');
    await lock.downgrade();
    await lock.downgrade();
    const other = await locks.acquire('written', { mode: 'read', waitMs: 0 });
    await lock.downgrade();
    expect((await locks.inspect('written')).holders).toHaveLength(2);
    const read = await locks.acquire('read', { mode: 'read' });
    await place.resetCommands();
    await read.downgrade();
    await place.expectNotSent('evalsha');
    expect([read.mode, read.held]).toEqual(['read', true]);
    for (const held of [lock, other, read]) await held.release();
    expect(await locks.tryAcquire('written')).not.toBeNull();
    expect(await locks.tryAcquire('read')).not.toBeNull();
  });

  it('rejects with LockLostError after a loss, and with LockNotHeldError after a release', async () => {
    const [a, b] = await startTwo();
    const keys = [freshKey(), freshKey(), freshKey()];
    const deleted = await a.locks.acquire(keys[0]!);
    await deleteLock(keys[0]!);
    expect(await rejection(deleted.downgrade())).toBeInstanceOf(LockLostError);
    expect(deleted.signal.aborted).toBe(true);
    const expired = await a.locks.acquire(keys[1]!, { leaseMs: 60, renew: false });
    const taken = await b.locks.acquire(keys[1]!, PATIENT);
    expect(await rejection(expired.downgrade())).toBeInstanceOf(LockLostError);
    expect(await b.locks.inspect(keys[1]!)).toMatchObject({ mode: 'write', fencingToken: taken.fencingToken });
    const released = await a.locks.acquire(keys[2]!);
    await released.release();
    expect(await rejection(released.downgrade())).toBeInstanceOf(LockNotHeldError);
  });

  it('lets nested work read, and refuses to write or to downgrade the hold of an outer call', async () => {
    const { locks } = await startApp();
    const [key, entered, leave] = [freshKey(), gate(), gate()];
    await locks.withLock(key, async (lock) => {
      await locks.withLock(key, async (inner) => {
        expect(await rejection(inner.downgrade())).toBeInstanceOf(LockReentryError);
      });
      const writing = locks.withLock(key, async () => {
        entered.open();
        await leave.opened;
      });
      await entered.opened;
      expect(await rejection(lock.downgrade())).toBeInstanceOf(LockReentryError);
      leave.open();
      await writing;
      await lock.downgrade();
      expect(await locks.withLock(key, READ, (inner) => inner.fencingToken)).toBe(lock.fencingToken);
      expect(await rejection(locks.withLock(key, PATIENT, () => 1))).toBeInstanceOf(LockReentryError);
    });
    expect(await locks.isLocked(key)).toBe(false);
  });
});
