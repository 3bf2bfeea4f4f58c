import { LockStoreError } from '../../lib/index.js';
import { NestLocksStore } from '../../lib/nestjs-locks.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { isCommand, loadScripts, ownRedis, proxyTo } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { rejection } from '../support/waiting/rejection.js';

const LONG_MS = 30_000;

/** Two stores on a Redis of this test: `near` beside it, `far` behind a network that loses replies. */
async function startPair() {
  const { admin, url } = await ownRedis();
  await loadScripts(admin);
  const proxy = await proxyTo(url);
  const far = new NestLocksStore((await startApp({ connection: proxy.url })).locks);
  const near = new NestLocksStore((await startApp({ connection: url })).locks);
  return { proxy, far, near, key: freshKey() };
}

describe('a store of @nestjs/locks on a bad network', () => {
  afterEach(closeAll);

  it('grants, renews and releases once when the reply is lost', async () => {
    const { proxy, far, near, key } = await startPair();
    proxy.dropNextReply(isCommand('acquire'));
    const grant = await far.acquire(key, 'ann', LONG_MS);
    expect(grant).toEqual({ acquired: true, fencingToken: expect.any(Number) });
    proxy.dropNextReply(isCommand('renew'));
    expect(await far.renew(key, 'ann', LONG_MS)).toBe(true);
    proxy.dropNextReply(isCommand('release'));
    expect(await far.release(key, 'ann')).toBe(true);
    expect(proxy.droppedReplies).toBe(3);
    expect(await near.acquire(key, 'bob', LONG_MS)).toMatchObject({ acquired: true });
  });

  it('gives back a grant whose reply did not arrive in time', async () => {
    const { proxy, far, near, key } = await startPair();
    expect(await far.acquire(freshKey(), 'ann', LONG_MS)).toMatchObject({ acquired: true });
    proxy.dropNextReply(isCommand('acquire'));
    const late = rejection(far.acquire(key, 'ann', LONG_MS));
    await eventually(() => proxy.droppedReplies === 1);
    proxy.refuse(true);
    expect(await near.acquire(key, 'bob', LONG_MS)).toEqual({ acquired: false });
    expect(await late).toBeInstanceOf(LockStoreError);
    proxy.refuse(false);
    await eventually(async () => (await near.acquire(key, 'bob', LONG_MS)).acquired);
  });
});
