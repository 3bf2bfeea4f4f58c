import { type Lock } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { gate } from '../support/waiting/gate.js';
import { rejection } from '../support/waiting/rejection.js';
import { expectNothingAlive, untilFree, untilRenewed } from '../support/waiting/waiters.js';

const startTwo = async () => [await startApp(), await startApp()] as const;
const LOST = { code: 'LOCK_LOST' };

// Each title names the library whose users met the defect, and where it was reported.
describe('a defect of another library', () => {
  afterEach(closeAll);

  it('symfony/lock #65116: a released read lock does not admit a later reader while a writer holds it', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const reader = await a.locks.acquire(key, { mode: 'read' });
    await reader.release();
    const writer = await a.locks.acquire(key);
    for (const { locks } of [a, b]) expect(await locks.tryAcquire(key, { mode: 'read' })).toBeNull();
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ mode: 'write', fencingToken: writer.fencingToken }]);
    await writer.release();
    const next = await b.locks.acquire(key, { mode: 'read' });
    expect(await a.locks.tryAcquire(key)).toBeNull();
    expect(next.fencingToken).toBeGreaterThan(writer.fencingToken);
  });

  it('Redisson, zombie readers: the renewals of a living reader do not keep the lease of a dead one', async () => {
    const [living, dead] = await startTwo();
    const key = freshKey();
    const read = await living.locks.acquire(key, { mode: 'read' });
    // Redis hears nothing more of this one, as after a crash of its process.
    const zombie = await dead.locks.acquire(key, { mode: 'read', leaseMs: 600, renew: false });
    expect(zombie.fencingToken).toBeGreaterThan(read.fencingToken);
    await eventually(async () => {
      await read.extend(60_000);
      return (await living.locks.inspect(key)).holders.length === 1;
    });
    expect((await living.locks.inspect(key)).holders).toMatchObject([{ fencingToken: read.fencingToken }]);
    await read.release();
    expect(await living.locks.tryAcquire(key)).not.toBeNull();
  });

  it('Redisson, an entry of a reader leaks in renewals: a released reader is not renewed, and leaves nothing behind', async () => {
    const app = await startApp();
    const key = freshKey();
    const lease = { mode: 'read', leaseMs: 3_000 } as const;
    const renewed = new Set<number>();
    const last = await app.locks.acquire(key, lease);
    for (let round = 0; round < 3; round++) {
      const readers = await Promise.all(Array.from({ length: 20 }, () => app.locks.acquire(key, lease)));
      await Promise.all(readers.map((reader) => reader.release()));
    }
    app.locks.events.on('renewed', ({ fencingToken }) => void renewed.add(fencingToken));
    await untilRenewed(app, 1);
    expect([...renewed]).toEqual([last.fencingToken]);
    await last.release();
    await untilFree(app, key);
    await expectNothingAlive([app]);
  });

  it('BullMQ #3056, #3183: work that outlives its lease is reported as lost, and its end does not end the run that followed', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const [entered, stalled, running] = [gate(), gate(), gate()];
    let heldAtEnd: boolean | undefined;
    const first = a.locks.withLock(key, { leaseMs: 60, renew: false }, async (lock: Lock) => {
      entered.open();
      await stalled.opened;
      heldAtEnd = lock.held;
      return 'completed';
    });
    await entered.opened;
    const second = b.locks.withLock(key, { waitMs: 25_000 }, async (lock) => {
      stalled.open();
      await running.opened;
      return lock.fencingToken;
    });
    expect(await rejection(first)).toMatchObject(LOST);
    expect(heldAtEnd).toBe(false);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    running.open();
    const token = await second;
    const third = await a.locks.acquire(key);
    expect(third.fencingToken).toBeGreaterThan(token);
  });
});
