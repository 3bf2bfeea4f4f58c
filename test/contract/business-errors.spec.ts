import { Injectable } from '@nestjs/common';
import { Locked } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { deleteLock } from './support/stores.js';
import { itOnSingle } from '../support/topologies/topology.js';
import { rejection } from '../support/waiting/rejection.js';

const error = new Error('the order is closed');

@Injectable()
class Orders {
  during: () => unknown = () => undefined;

  @Locked('close:<0>', { leaseMs: 5_000 })
  async close(_id: string): Promise<string> {
    await this.during();
    throw error;
  }
}

describe('promise 9: business errors pass untouched', () => {
  afterEach(closeAll);

  it.each([[error], [new TypeError('x')], ['a string'], [undefined], [null], [Object.freeze({ code: 7 })]])(
    'rejects with the very value that the work threw: %p',
    async (thrown) => {
      const { locks } = await startApp();
      const key = freshKey();
      // oxlint-disable-next-line typescript/only-throw-error, typescript/prefer-promise-reject-errors -- whatever it is
      expect(await rejection<unknown>(locks.withLock(key, () => Promise.reject(thrown)))).toBe(thrown);
      const synchronous = () => {
        throw thrown;
      };
      expect(await rejection<unknown>(locks.withLock(key, synchronous))).toBe(thrown);
      expect(await locks.isLocked(key)).toBe(false);
    },
  );

  itOnSingle('rejects with the error of the work, not with that of a failing release', async () => {
    const proxy = await proxyTo();
    const { locks } = await startApp({ connection: proxy.url });
    const work = locks.withLock(freshKey(), { leaseMs: 5_000 }, () => {
      disconnect(proxy);
      throw error;
    });
    expect(await rejection(work)).toBe(error);
  });

  itOnSingle('resolves with the value of the work when only the release fails', async () => {
    const proxy = await proxyTo();
    const { locks } = await startApp({ connection: proxy.url });
    const work = locks.withLock(freshKey(), { leaseMs: 20_000 }, () => {
      disconnect(proxy);
      return 'value';
    });
    expect(await work).toBe('value');
  });

  it('rejects with the error of the work even when the lock was lost meanwhile', async () => {
    const { locks } = await startApp();
    const lostInWork = locks.withLock(freshKey(), { maxHoldMs: 50 }, async (lock) => {
      await eventually(() => lock.signal.aborted);
      throw error;
    });
    expect(await rejection(lostInWork)).toBe(error);
    const key = freshKey();
    const lostAtRelease = locks.withLock(key, async () => {
      await deleteLock(key);
      throw error;
    });
    expect(await rejection(lostAtRelease)).toBe(error);
    expect(error.cause).toBeUndefined();
    expect(Object.keys(error)).toEqual([]);
  });

  itOnSingle(
    'rejects with the error of a decorated method: with the lock, without a release, and without the lock',
    async () => {
      const proxy = await proxyTo();
      const { app } = await startApp({ connection: proxy.url }, { providers: [Orders] });
      const [orders, admin] = [app.get(Orders), openAdmin()];
      expect(await rejection(orders.close(freshKey()))).toBe(error);
      const id = freshKey();
      orders.during = () => admin.del(`lock:close:${id}`);
      expect(await rejection(orders.close(id))).toBe(error);
      orders.during = () => disconnect(proxy);
      expect(await rejection(orders.close(freshKey()))).toBe(error);
    },
  );
});
