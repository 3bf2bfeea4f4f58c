import { Injectable } from '@nestjs/common';
import { LockBusyError, Locked, RedisLockService } from '../../../lib/index.js';
import { MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';
import { Audits, keep, startOrders } from './support/memory-apps.js';

@Injectable()
class Orders {
  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(id: string): Promise<string> {
    return id;
  }
}

afterEach(closeAll);

describe('two apps', () => {
  it('exclude each other on one server, and learn of a release', async () => {
    const server = new MemoryLockServer();
    const [a, b] = await Promise.all([startOrders(Orders, { server }), startOrders(Orders, { server })]);
    const lock = await a.locks.acquire('order:1');
    await expect(b.orders.charge('1')).rejects.toBeInstanceOf(LockBusyError);
    const waiting = b.locks.acquire('order:1');
    await eventually(() => b.locks.activity.waiting === 1);
    await lock.release();
    expect((await waiting).fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('do not exclude each other on one server with different prefixes', async () => {
    const server = new MemoryLockServer();
    const apps = await Promise.all([
      startOrders(Orders, { server }),
      startOrders(Orders, { server, keyPrefix: 'other:' }),
      startOrders(Orders),
      startOrders(Orders),
    ]);
    const locks = await Promise.all(apps.map((app) => app.locks.tryAcquire('order:1')));
    expect(locks.map((lock) => lock?.held)).toEqual([true, true, true, true]);
  });

  it('are independent: closing one leaves the other running', async () => {
    const server = new MemoryLockServer();
    const [a, b] = [await startOrders(Orders, { server }), await startOrders(Orders, { server })];
    keep(await a.locks.acquire('order:1'));
    await a.app.close();
    expect(await b.orders.charge('1')).toBe('1');
  });
});

describe('a named module', () => {
  const start = async (server?: MemoryLockServer) => {
    const imports = [
      RedisLockTestingModule.forRoot({ name: 'audit', drainMs: 0, server }),
      RedisLockTestingModule.forRoot({ drainMs: 0, server }),
    ];
    return startModule({ imports, providers: [Orders, Audits] });
  };

  it.each([
    ['without a server', undefined],
    ['on the same server', new MemoryLockServer()],
  ])('has its own locks %s', async (_where, server) => {
    const app = await start(server);
    keep(await app.get(RedisLockService).acquire('order:1'));
    expect(await app.get(Audits).write('1')).toBe('1');
    keep(await app.get(Audits).locks.acquire('order:1'));
    await expect(app.get(Audits).write('1')).rejects.toBeInstanceOf(LockBusyError);
  });

  it('shares them with the module of that name of another app', async () => {
    const server = new MemoryLockServer();
    const [a, b] = await Promise.all([start(server), start(server)]);
    keep(await a.get(Audits).locks.acquire('order:1'));
    await expect(b.get(Audits).write('1')).rejects.toBeInstanceOf(LockBusyError);
  });
});
