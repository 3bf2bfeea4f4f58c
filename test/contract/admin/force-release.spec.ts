import { LockLostError, type RedisLockModuleOptions } from '../../../lib/index.js';
import { clientWithSubscriberAt } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, loadScripts, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, openAdmin, openAdmins, startApp } from '../../support/apps/lock-app.js';
import { nodesOf } from '../support/stores.js';
import { itOnSingle, topology } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';

const PATIENT = { waitMs: 25_000 };
const OPERATOR = { code: 'LOCK_LOST', reason: 'revoked' };

/** An app that hears messages. */
async function startListening(options: RedisLockModuleOptions = {}): Promise<LockApp> {
  const app = await startApp(options);
  // In memory it does from the beginning.
  if (topology.isMemory) return app;
  const lock = await app.locks.acquire(freshKey('warm-up'));
  await lock.release();
  const channel = `lock:wake:${lock.owner.split('.')[0]!}`;
  // Each server counts its own subscribers.
  const servers = (await Promise.all(openAdmins().map((admin) => nodesOf(admin)))).flat();
  await eventually(async () => {
    const counts = await Promise.all(servers.map((server) => server.pubsub('NUMSUB', channel)));
    return counts.some(([, count]) => Number(count) === 1);
  });
  return app;
}

const startThree = async (): Promise<[LockApp, LockApp, LockApp]> => [
  await startListening(),
  await startListening(),
  await startListening(),
];

describe('forceRelease', () => {
  afterEach(closeAll);

  it('returns whether the lock was held', async () => {
    const [a, b] = await startThree();
    const key = freshKey();
    expect(await b.locks.forceRelease(key)).toBe(false);
    const lock = await a.locks.acquire(key);
    expect(await b.locks.forceRelease(key)).toBe(true);
    expect(await b.locks.forceRelease(key)).toBe(false);
    expect(await b.locks.inspect(key)).toMatchObject({ mode: 'free', holders: [] });
    expect((await b.locks.acquire(key, { waitMs: 0 })).fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('notifies the holder at once, long before its next renewal, and rejects its work with the result', async () => {
    const [a, b] = await startThree();
    const key = freshKey();
    const lost: unknown[] = [];
    a.locks.events.on('lost', ({ reason }) => lost.push(reason));
    const work = a.locks.withLock(key, { leaseMs: 600_000 }, async ({ signal }) => {
      expect(await b.locks.forceRelease(key)).toBe(true);
      await eventually(() => signal.aborted);
      expect(signal.reason).toMatchObject(OPERATOR);
      return 'value';
    });
    const error = await rejection(work);
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ ...OPERATOR, key, result: 'value' });
    expect(lost).toEqual(['revoked']);
  });

  itOnSingle('notifies a holder that cannot hear the message at its next renewal', async () => {
    const [proxy, b, admin] = [await proxyTo(), await startApp(), openAdmin()];
    const a = await startApp({ connection: clientWithSubscriberAt(proxy.url) });
    const channels = async () => ((await admin.pubsub('CHANNELS', 'lock:wake:*')) as string[]).length;
    await eventually(async () => (await channels()) >= 2);
    proxy.blackhole(true);
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 6_000 });
    await b.locks.forceRelease(key);
    const next = await b.locks.acquire(key);
    expect(lock.signal.aborted).toBe(false);
    await eventually(() => lock.signal.aborted, { timeoutMs: 40_000 });
    expect(lock.signal.reason).toMatchObject(OPERATOR);
    expect(next.held).toBe(true);
  });

  itOnSingle('notifies a holder that missed the message as soon as it hears again', async () => {
    const [proxy, b] = [await proxyTo(), await startApp()];
    const a = await startListening({ connection: clientWithSubscriberAt(proxy.url) });
    const key = freshKey();
    disconnect(proxy);
    const missed = await a.locks.acquire(key, { leaseMs: 600_000 });
    await b.locks.forceRelease(key);
    expect(missed.signal.aborted).toBe(false);
    proxy.refuse(false);
    await eventually(() => missed.signal.aborted);
    expect(missed.signal.reason).toMatchObject(OPERATOR);
  });

  itOnSingle('notifies a holder that releases before it hears of the revocation', async () => {
    const [proxy, b] = [await proxyTo(), await startApp()];
    const a = await startApp({ connection: clientWithSubscriberAt(proxy.url) });
    const key = freshKey();
    proxy.blackhole(true);
    const work = a.locks.withLock(key, { leaseMs: 600_000 }, async () => {
      await b.locks.forceRelease(key);
      return 'value';
    });
    expect(await rejection(work)).toMatchObject({ ...OPERATOR, result: 'value' });
  });

  it('leaves a holder alone that was granted the lock after the operator looked, and refuses a text that is not a token', async () => {
    const [a, b] = await startThree();
    const key = freshKey();
    await (await a.locks.acquire(key)).release();
    const { fencingToken: upToToken } = await b.locks.inspect(key);
    const later = await a.locks.acquire(key);
    expect(await b.locks.forceRelease(key, { upToToken })).toBe(false);
    await later.extend(60_000);
    expect(later.held).toBe(true);
    expect(await b.locks.forceRelease(key, { upToToken: (await b.locks.inspect(key)).fencingToken })).toBe(true);
    expect(await rejection(b.locks.forceRelease(key, { upToToken: -1 }))).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringMatching(/`upToToken` .*a fencing token: a whole number from 0, got `-1`/),
    });
  });

  it('ends the whole lock when one of its several keys is revoked', async () => {
    const [a, b] = await startThree();
    const keys = [freshKey(), freshKey(), freshKey()];
    const lock = await a.locks.acquire(keys, { leaseMs: 600_000 });
    expect(await b.locks.forceRelease(keys[1]!)).toBe(true);
    await eventually(() => lock.signal.aborted);
    expect(lock.signal.reason).toMatchObject(OPERATOR);
    await lock.release();
    await eventually(async () => (await b.locks.tryAcquire(keys)) !== null);
  });

  itOnSingle('has all keys requested again when one is revoked before the grant arrived', async () => {
    const [commands, messages, b] = [await proxyTo(), await proxyTo(), await startApp()];
    await loadScripts(openAdmin());
    const a = await startApp({ connection: clientWithSubscriberAt(messages.url, commands.url) });
    const keys = [freshKey(), freshKey(), freshKey()];
    await a.locks.withLock(freshKey(), () => messages.blackhole(true));
    commands.dropNextReply((text) => text.startsWith('evalsha ') && keys.some((key) => text.includes(key)));
    commands.refuse(true);
    const waiting = a.locks.acquire(keys, { ...PATIENT, leaseMs: 600_000 });
    await eventually(() => commands.droppedReplies === 1);
    const before = await Promise.all(keys.map((key) => b.locks.inspect(key)));
    expect(await b.locks.forceRelease(keys[1]!)).toBe(true);
    commands.refuse(false);
    const lock = await waiting;
    for (const [i, key] of keys.entries()) {
      const fencingToken = lock.fencingTokens[i]!;
      expect(fencingToken).toBeGreaterThan(before[i]!.holders[0]!.fencingToken);
      expect(await b.locks.inspect(key)).toMatchObject({ mode: 'write', waiters: 0, holders: [{ fencingToken }] });
    }
    await lock.release();
    expect(await b.locks.tryAcquire(keys)).not.toBeNull();
  });
});
