import { type Locker } from '../../lib/core/locker.js';
import { resolveLockOptions } from '../../lib/core/lock-options.js';
import { RESOLVED_OPTIONS } from '../../lib/redis-lock.tokens.js';
import { eventually } from '../support/eventually.js';
import { hashOf, isCommand, proxyTo, rejection } from '../support/faults.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../support/lock-app.js';

const FIRE = { kind: 'at', ms: 1_000, rememberMs: 60_000, rerunOnLoss: false } as const;

/** Claims a fire as a decorated method does. */
function claim({ app, locker }: LockApp, key: string, signal?: AbortSignal): ReturnType<Locker['acquire']> {
  const options = resolveLockOptions({ waitMs: 0, ...(signal && { signal }) }, app.get(RESOLVED_OPTIONS));
  return locker.acquire([key], options, undefined, { ...FIRE, calledAt: locker.clock.now() });
}

describe('a claim of a fire that is given up after Redis granted it', () => {
  afterEach(closeAll);

  it('is taken back: another instance runs the fire', async () => {
    const [admin, proxy] = [openAdmin(), await proxyTo()];
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    for (const { locks } of [a, b]) await locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    const controller = new AbortController();
    proxy.dropNextReply(isCommand('acquire'));
    const failed = rejection(claim(a, key, controller.signal));
    await eventually(async () => (await hashOf(admin, key))['run'] !== undefined);
    controller.abort(new Error('given up'));
    expect(await failed).toHaveProperty('message', 'given up');
    await eventually(() => a.locker.live.releasing === 0);
    const lock = await claim(b, key);
    await lock.finish('done');
    expect(await b.locks.lastRun(key)).toMatchObject({ outcome: 'done' });
    expect((await rejection(claim(a, key))).name).toBe('LockBusyError');
  });

  it('is not taken back when it was run', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const lock = await claim(a, key);
    await lock.finish('failed');
    expect(await b.locks.lastRun(key)).toMatchObject({ outcome: 'failed' });
    expect((await rejection(claim(b, key))).name).toBe('LockBusyError');
  });
});
