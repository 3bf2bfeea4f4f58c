import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { spyOnLogs } from '../security/support.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

const isAppend = (text: string): boolean => text.startsWith('evalsha ') && text.includes('{history}');

describe('a history that cannot be written', () => {
  afterEach(closeAll);

  it('because something else is under its name does not touch the locks', async () => {
    const { admin, url } = await ownRedis();
    await admin.set('lock:{history}', 'not a stream');
    const { lines } = spyOnLogs();
    const { locks } = await startApp({ connection: url, history: true });
    for (let i = 0; i < 20; i += 1) expect(await locks.withLock(freshKey(), () => i)).toBe(i);
    expect(await rejection(locks.history())).toMatchObject({
      code: 'LOCK_STORE',
      key: undefined,
      message: expect.stringMatching(/^Redis could not read the history of the locks: WRONGTYPE /),
    });
    await eventually(() => lines().some((line) => line.includes('The history of locks cannot be written: ')));
    expect(lines().join('\n')).toContain('Redis could not write the history of the locks: WRONGTYPE ');
    expect(lines().join('\n')).not.toContain('{history}');
    await admin.del('lock:{history}');
    await eventually(async () => (await locks.history()).length === 40);
  });

  it('because its answer is lost has each entry once', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const { locks } = await startApp({ connection: proxy.url, history: true });
    const key = freshKey();
    await locks.withLock(key, () => undefined);
    await locks.history();
    proxy.dropNextReply(isAppend);
    await locks.withLock(key, () => undefined);
    await eventually(() => proxy.droppedReplies === 1);
    await eventually(async () => (await locks.history({ key })).length >= 4, { timeoutMs: 20_000 });
    const events = (await locks.history({ key })).map(({ event }) => event);
    expect(events).toEqual(['released', 'acquired', 'released', 'acquired']);
  });

  it('while Redis is away is written afterwards, with the losses of that time', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const { locks } = await startApp({ connection: proxy.url, history: true });
    const key = freshKey();
    const held = await locks.acquire(key, { leaseMs: 1_000 });
    await locks.history();
    disconnect(proxy);
    await eventually(() => held.signal.aborted, { timeoutMs: 20_000 });
    expect(await rejection(locks.acquire(key, { waitMs: 0 }))).toMatchObject({ code: 'LOCK_STORE' });
    proxy.refuse(false);
    const events = async () => (await locks.history({ key }).catch(() => [])).map(({ event }) => event);
    await eventually(async () => (await events()).includes('failed'), { timeoutMs: 20_000 });
    expect(await events()).toEqual(['failed', 'lost', 'acquired']);
  });

  it('does not keep an app from its end when Redis hangs', async () => {
    const { pid, url } = await ownRedis();
    const app = await startApp({ connection: url, history: true, drainMs: 0 });
    await app.locks.withLock(freshKey(), () => undefined);
    process.kill(pid, 'SIGSTOP');
    await app.close().finally(() => process.kill(pid, 'SIGCONT'));
    expect(app.locker.live.locks).toBe(0);
  });
});
