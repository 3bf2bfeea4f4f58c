import { setImmediate } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Observable, lastValueFrom, of } from 'rxjs';
import { currentLock, Locked, type LockLostError, type RedisLockModuleOptions } from '../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { itOnSingle } from '../support/topologies/topology.js';
import { eventually } from '../support/waiting/eventually.js';
import { gate } from '../support/waiting/gate.js';
import { rejection } from '../support/waiting/rejection.js';
import { enqueue, untilFree } from '../support/waiting/waiters.js';
import { deleteLock } from './support/stores.js';

const NO_WAIT: RedisLockModuleOptions = { awaitRelease: false };

@Injectable()
class Orders {
  @Locked('close:<0>', { ifBusy: 'throw' })
  async close(_id: string): Promise<string> {
    return currentLock().key;
  }

  @Locked('watch:<0>', { ifBusy: 'throw' })
  watch(id: string): Observable<string> {
    return of(id);
  }

  @Locked('list:<0>', { ifBusy: 'throw' })
  async *list(id: string): AsyncGenerator<string> {
    yield id;
  }
}

/** Keeps all releases of an app from being sent, until the test opens the gate. */
function holdReleases({ locker }: LockApp) {
  const { opened, open } = gate();
  const { store } = locker as unknown as { readonly store: { release(...args: unknown[]): Promise<unknown> } };
  const release = store.release.bind(store);
  store.release = (...args) => opened.then(() => release(...args));
  return open;
}

describe('calls that do not wait for their release', () => {
  afterEach(closeAll);

  it('return while the lock is still held, and the next waiter gets it after that', async () => {
    const [a, b] = [await startApp(NO_WAIT), await startApp()];
    const key = freshKey();
    const sendReleases = holdReleases(a);
    let next!: Awaited<ReturnType<typeof enqueue>>;
    await a.locks.withLock(key, async () => void (next = await enqueue(b, key)));
    expect(await b.locks.tryAcquire(key)).toBeNull();
    sendReleases();
    expect((await next.lock).held).toBe(true);
  });

  it('may be followed by a call of the same process for the same lock that does not wait', async () => {
    const { locks } = await startApp(NO_WAIT);
    const keys = [freshKey(), freshKey(), freshKey()];
    for (let call = 0; call < 20; call += 1) {
      for (const key of keys) expect(await locks.withLock(key, { waitMs: 0 }, () => call)).toBe(call);
      expect(await locks.withLock(keys, { waitMs: 0 }, () => call)).toBe(call);
    }
    for (const key of keys) await untilFree({ locks }, key);
  });

  itOnSingle('are followed by one of the next turn, also when the server has forgotten its scripts', async () => {
    const { admin, url } = await ownRedis();
    const { locks } = await startApp({ ...NO_WAIT, connection: url });
    for (let i = 0; i < 10; i += 1) {
      const key = freshKey();
      await admin.script('FLUSH');
      await locks.withLock(key, () => undefined);
      await setImmediate();
      const next = await locks.tryAcquire(key);
      expect(next).not.toBeNull();
      await next!.release();
    }
  });

  it('may be decorated methods, and their streams', async () => {
    const { app, locks } = await startApp(NO_WAIT, { providers: [Orders] });
    const orders = app.get(Orders);
    const id = freshKey();
    for (let call = 0; call < 10; call += 1) {
      expect(await orders.close(id)).toBe(`close:${id}`);
      expect(await lastValueFrom(orders.watch(id))).toBe(id);
      for await (const listed of orders.list(id)) expect(listed).toBe(id);
    }
    for (const key of [`close:${id}`, `watch:${id}`, `list:${id}`]) await untilFree({ locks }, key);
  });

  it('exclude each other', async () => {
    const apps = [await startApp(NO_WAIT), await startApp(NO_WAIT), await startApp()];
    const key = freshKey();
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await Promise.resolve();
      inside -= 1;
    };
    const caller = async ({ locks }: LockApp): Promise<void> => {
      for (let call = 0; call < 15; call += 1) await locks.withLock(key, { waitMs: 25_000 }, work);
    };
    await Promise.all(apps.flatMap((app) => [caller(app), caller(app)]));
    expect([inside, most]).toEqual([0, 1]);
    await untilFree(apps[0]!, key);
  });

  it('return although the release finds that the lock was lost before; the event reports it', async () => {
    const { locks } = await startApp(NO_WAIT);
    const losses: LockLostError[] = [];
    locks.events.on('lost', ({ error }) => losses.push(error));
    const key = freshKey();
    expect(await locks.withLock(key, () => deleteLock(key).then(() => 'done'))).toBe('done');
    await eventually(() => losses.length > 0);
    expect(losses).toMatchObject([{ code: 'LOCK_LOST', key, reason: 'expired' }]);
  });

  it('reject when the lock was lost while their work ran', async () => {
    const { locks } = await startApp(NO_WAIT);
    const work = locks.withLock(freshKey(), { maxHoldMs: 50 }, async ({ signal }) => {
      await eventually(() => signal.aborted);
      return 'done anyway';
    });
    expect(await rejection(work)).toMatchObject({ reason: 'max-hold', result: 'done anyway' });
  });

  it('are released when their app is closed at once', async () => {
    const [a, b] = [await startApp(NO_WAIT), await startApp()];
    const key = freshKey();
    await a.locks.withLock(key, () => undefined);
    await a.close();
    expect(await b.locks.isLocked(key)).toBe(false);
  });
});
