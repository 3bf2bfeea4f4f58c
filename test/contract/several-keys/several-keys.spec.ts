import { Injectable } from '@nestjs/common';
import { type Redis } from 'ioredis';
import { LockKeyError, LockLostError, Locked, currentLock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { loadScripts, ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { deleteLock, ownPlace } from '../support/stores.js';
import { itOnSingle } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

const areLocked = ({ locks }: LockApp, keys: readonly string[]) => Promise.all(keys.map((key) => locks.isLocked(key)));

/** How often a server was asked for one of our scripts: always by EVALSHA first, unlike the probe at the start of an app. */
async function scriptCalls(admin: Redis): Promise<number> {
  const stats = await admin.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

@Injectable()
class Accounts {
  @Locked(['acct:<0>', 'acct:<1>'])
  async transfer(_from: string, _to: string): Promise<readonly string[]> {
    return currentLock().keys;
  }

  @Locked(['acct:<0>', 'acct:<1>'], { ifBusy: 'skip' })
  async offer(_from: string, _to: string): Promise<string | undefined> {
    return 'done';
  }
}

describe('several keys', () => {
  afterEach(closeAll);

  it('are all locked, or none', async () => {
    const [a, b] = await startTwo();
    const [one, two] = [freshKey(), freshKey()];
    for (const busyKey of [one, two]) {
      const busy = await a.locks.acquire(busyKey);
      expect(await b.locks.tryAcquire([one, two])).toBeNull();
      expect(await b.locks.tryAcquire([two, one], { holdAtLeastMs: 60_000 })).toBeNull();
      expect(await areLocked(a, [one, two])).toEqual([one, two].map((key) => key === busyKey));
      await busy.release();
    }
    const both = await b.locks.acquire([one, two], { waitMs: 0 });
    expect(await areLocked(a, [one, two])).toEqual([true, true]);
    await both.release();
    await both.release();
    expect(await areLocked(a, [one, two])).toEqual([false, false]);
  });

  it('have fencing tokens in the order given, and a key that is named twice counts once', async () => {
    const { locks } = await startApp();
    const [one, two, three] = [freshKey('b'), freshKey('a'), freshKey('c')];
    await (await locks.acquire(two)).release();
    const lock = await locks.acquire([one, two, one, three, two]);
    expect(lock.keys).toEqual([one, two, three]);
    expect(lock.key).toBe([one, two, three].join(', '));
    const states = await Promise.all(lock.keys.map((key) => locks.inspect(key)));
    expect(lock.fencingTokens).toEqual(states.map(({ holders }) => holders[0]!.fencingToken));
    expect(lock.fencingToken).toBe(lock.fencingTokens[0]);
    expect(states.map(({ holders }) => holders.length)).toEqual([1, 1, 1]);
    await lock.release();
    expect(await Promise.all([locks.tryAcquire([one, one]), locks.tryAcquire([two, three])])).not.toContain(null);
  });

  it('are lost together when one of them is lost', async () => {
    const [a, b] = await startTwo();
    const keys = [freshKey(), freshKey(), freshKey()];
    const lock = await a.locks.acquire(keys);
    await deleteLock(keys[1]!);
    expect(await rejection(lock.extend(60_000))).toBeInstanceOf(LockLostError);
    expect([lock.held, lock.signal.aborted]).toEqual([false, true]);
    await lock.release();
    await eventually(async () => (await areLocked(b, keys)).every((locked) => !locked));
    const work = a.locks.withLock(keys, { leaseMs: 6_000 }, async ({ signal }) => {
      await deleteLock(keys[2]!);
      await eventually(() => signal.aborted);
      return 'value';
    });
    expect(await rejection(work)).toMatchObject({ code: 'LOCK_LOST', result: 'value' });
    await eventually(async () => (await areLocked(b, keys)).every((locked) => !locked));
  });

  itOnSingle('cost one command when they are free, and one when they are busy and no other call waits', async () => {
    const { admin, url } = await ownRedis();
    await loadScripts(admin);
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const keys = ['a', 'b', 'c', 'd'];
    const before = await scriptCalls(admin);
    const lock = await a.locks.acquire(keys, { leaseMs: 600_000, renew: false });
    expect(await scriptCalls(admin)).toBe(before + 1);
    expect(await b.locks.tryAcquire(keys)).toBeNull();
    expect(await scriptCalls(admin)).toBe(before + 2);
    expect(lock.held).toBe(true);
  });

  it('may be shared by readers, and re-entered by one owner', async () => {
    const [a, b] = await startTwo();
    const [keys, owner] = [[freshKey(), freshKey()], 'order-7'];
    const reader = await a.locks.acquire(keys, { mode: 'read' });
    const other = await b.locks.acquire(keys.toReversed(), { mode: 'read', waitMs: 0 });
    expect(await b.locks.tryAcquire(keys)).toBeNull();
    await Promise.all([reader.release(), other.release()]);
    const one = await a.locks.acquire(keys[1]!, { owner });
    const both = await b.locks.acquire(keys, { owner, waitMs: 0 });
    expect(both.fencingTokens[1]).toBe(one.fencingToken);
    await both.release();
    expect(await areLocked(b, keys)).toEqual([false, true]);
  });
});

describe('several keys of a decorated method', () => {
  afterEach(closeAll);

  it('are filled from the arguments, and all locked or none', async () => {
    const { app, locks } = await startApp({}, { providers: [Accounts] });
    const [accounts, one, two] = [app.get(Accounts), freshKey(), freshKey()];
    expect(await accounts.transfer(one, two)).toEqual([`acct:${one}`, `acct:${two}`]);
    expect(await accounts.transfer(one, one)).toEqual([`acct:${one}`]);
    const busy = await locks.acquire(`acct:${two}`);
    expect(await accounts.offer(one, two)).toBeUndefined();
    expect(await locks.isLocked(`acct:${one}`)).toBe(false);
    await busy.release();
    expect(await accounts.offer(one, two)).toBe('done');
  });
});

describe('the limits of several keys', () => {
  afterEach(closeAll);

  it.each([
    ['none', []],
    ['an empty one', ['a', '']],
    ['no string', ['a', 1 as unknown as string]],
    ['half a character', ['a', '\ud800']],
    ['too long a one', ['a', 'x'.repeat(1_025)]],
    ['more than 16', Array.from({ length: 17 }, (_, i) => `key-${i}`)],
  ])('are refused with LockKeyError before anything is sent: %s', async (_what, keys) => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    expect(await rejection(locks.acquire(keys))).toBeInstanceOf(LockKeyError);
    expect(await rejection(locks.withLock(keys, () => 'ran'))).toBeInstanceOf(LockKeyError);
    await place.expectNotSent('evalsha');
  });
});
