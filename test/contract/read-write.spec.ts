import { setImmediate as turn } from 'node:timers/promises';
import { type Lock } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { openStore } from './support/stores.js';
import { itWithQueue } from '../support/topologies/topology.js';
import { inQueue, untilWaiting } from '../support/waiting/waiters.js';
import { grantedAt } from '../support/redis/records.js';

const PATIENT = { waitMs: 25_000 };
const READ = { mode: 'read', ...PATIENT } as const;

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

/** Acquires again and again until the signal; notes each grant by its token. */
async function useWithoutEnd(app: LockApp, key: string, mode: 'read' | 'write', grants: number[], stop: AbortSignal) {
  while (!stop.aborted) {
    const lock = await app.locks.acquire(key, { mode, ...PATIENT, ...inQueue });
    grants.push(lock.fencingToken);
    for (let i = 0; i < 5; i++) await turn();
    await lock.release();
  }
}

afterEach(closeAll);

describe('readers and writers', () => {
  it('several readers share the lock, and a writer excludes all others', async () => {
    const apps = [await startApp(), await startApp(), await startApp()];
    const key = freshKey();
    const readers = await Promise.all(Array.from({ length: 9 }, (_, i) => apps[i % 3]!.locks.acquire(key, READ)));
    expect(new Set(readers.map(({ fencingToken }) => fencingToken)).size).toBe(9);
    expect((await apps[0]!.locks.inspect(key)).holders).toHaveLength(9);
    for (const reader of readers) {
      expect(await apps[0]!.locks.tryAcquire(key)).toBeNull();
      await reader.release();
    }
    const writer = await apps[1]!.locks.acquire(key);
    for (const { locks } of apps) {
      expect(await locks.tryAcquire(key)).toBeNull();
      expect(await locks.tryAcquire(key, { mode: 'read' })).toBeNull();
      expect(await locks.tryAcquire(key, { mode: 'read', fair: false })).toBeNull();
    }
    expect(writer.fencingToken).toBeGreaterThan(Math.max(...readers.map(({ fencingToken }) => fencingToken)));
  });

  it('a read re-enters a read while a writer waits, without a deadlock', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    let writer!: Promise<Lock>;
    const token = await a.locks.withLock(key, READ, async ({ fencingToken }) => {
      writer = b.locks.acquire(key, PATIENT);
      await untilWaiting(a, key, 1);
      expect(await a.locks.withLock(key, READ, (inner) => inner.fencingToken)).toBe(fencingToken);
      return fencingToken;
    });
    expect((await writer).fencingToken).toBeGreaterThan(token);
  });

  it('an owner re-enters its read in another process while a writer waits', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'report-3'];
    const outer = await a.locks.acquire(key, { ...READ, owner });
    const writer = a.locks.acquire(key, PATIENT);
    await untilWaiting(a, key, 1);
    const inner = await b.locks.acquire(key, { ...READ, owner });
    expect(inner.fencingToken).toBe(outer.fencingToken);
    await Promise.all([outer.release(), inner.release()]);
    expect((await writer).held).toBe(true);
  });
});

describe('readers and writers do not starve', () => {
  itWithQueue('a waiting writer is granted before new readers, however many come', async () => {
    const [a, b] = await startTwo();
    const [store, key, stop, grants] = [openStore(), freshKey(), new AbortController(), [] as number[]];
    const lanes = Array.from({ length: 6 }, (_, i) => useWithoutEnd([a, b][i % 2]!, key, 'read', grants, stop.signal));
    await eventually(() => grants.length > 60);
    const before = await a.locks.acquire(key, READ);
    const writing = b.locks.acquire(key, PATIENT);
    // The writer, and behind it every lane of the stream.
    await untilWaiting(a, key, 7);
    const allWaitAt = await store.now();
    const known = grants.length;
    await before.release();
    const writer = await writing;
    expect(grants).toHaveLength(known);
    expect(grantedAt(writer)).toBeGreaterThanOrEqual(allWaitAt);
    expect(Math.max(...grants)).toBeLessThan(writer.fencingToken);
    await writer.release();
    await eventually(() => grants.length > known + 60);
    stop.abort();
    await Promise.all(lanes);
  });

  itWithQueue('a reader is granted after the writers queued before it, however many writers come', async () => {
    const [a, b] = await startTwo();
    const [key, stop, grants] = [freshKey(), new AbortController(), [] as number[]];
    const held = await a.locks.acquire(key);
    const lanes = Array.from({ length: 5 }, (_, i) => useWithoutEnd([a, b][i % 2]!, key, 'write', grants, stop.signal));
    await untilWaiting(a, key, 5);
    const reading = b.locks.acquire(key, READ);
    await untilWaiting(a, key, 6);
    await held.release();
    const reader = await reading;
    expect(grants.filter((token) => token < reader.fencingToken)).toHaveLength(5);
    await reader.release();
    await eventually(() => grants.length > 40);
    stop.abort();
    await Promise.all(lanes);
  });
});
