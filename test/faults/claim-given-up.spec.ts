import { claimFire } from '../support/apps/claim-fire.js';
import { eventually } from '../support/waiting/eventually.js';
import { isCommand, proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { hashOf } from '../support/redis/records.js';
import { rejection } from '../support/waiting/rejection.js';

describe('a claim of a fire that is cancelled after Redis granted it', () => {
  afterEach(closeAll);

  it('is given back, and another instance runs the fire', async () => {
    const [admin, proxy] = [openAdmin(), await proxyTo()];
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    for (const { locks } of [a, b]) await locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    const controller = new AbortController();
    proxy.dropNextReply(isCommand('acquire'));
    const failed = rejection(claimFire(a, key, {}, { signal: controller.signal }));
    await eventually(async () => (await hashOf(admin, key))['run:Jobs.run'] !== undefined);
    controller.abort(new Error('given up'));
    expect(await failed).toHaveProperty('message', 'given up');
    await eventually(() => a.locker.live.releasing === 0);
    const lock = await claimFire(b, key);
    await lock.releaseAfter('done');
    expect(await b.locks.lastRun(key)).toMatchObject({ outcome: 'done' });
    expect((await rejection(claimFire(a, key))).name).toBe('LockBusyError');
  });

  it('is kept when the fire was run', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const lock = await claimFire(a, key);
    await lock.releaseAfter('failed');
    expect(await b.locks.lastRun(key)).toMatchObject({ outcome: 'failed' });
    expect((await rejection(claimFire(b, key))).name).toBe('LockBusyError');
  });
});
