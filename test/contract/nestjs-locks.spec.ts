import { LockConfigurationError, LockKeyError } from '../../lib/index.js';
import { NestLocksStore } from '../../lib/nestjs-locks.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { itWithOneClock } from '../support/topologies/topology.js';
import { eventually } from '../support/waiting/eventually.js';
import { rejection } from '../support/waiting/rejection.js';

const LONG_MS = 30_000;
const SHORT_MS = 500;
const THIRTY_DAYS_MS = 2_592_000_000;
const NOT_ACQUIRED = { acquired: false };

/** What `@nestjs/locks` asks of a store. */
interface NestLocksPort {
  acquire(
    key: string,
    owner: string,
    ttl: number,
  ): Promise<{ acquired: true; fencingToken: number } | { acquired: false }>;
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  release(key: string, owner: string): Promise<boolean>;
}

/** Two instances of an app, each with a store of its own. */
async function startPair() {
  const [a, b] = [await startApp(), await startApp()];
  const [one, two]: NestLocksPort[] = [new NestLocksStore(a.locks), new NestLocksStore(b.locks)];
  return { a, b, one: one!, two: two!, key: freshKey() };
}

/** The fencing token of a lock that has to be free. */
async function taken(store: NestLocksPort, key: string, owner: string, ttl = LONG_MS): Promise<number> {
  const grant = await store.acquire(key, owner, ttl);
  if (!grant.acquired) throw new Error(`"${owner}" did not acquire "${key}"`);
  return grant.fencingToken;
}

/** The same, once a lease has ended. */
const takenLater = (store: NestLocksPort, key: string, owner: string): Promise<number> =>
  eventually(async () => {
    const grant = await store.acquire(key, owner, LONG_MS);
    return grant.acquired && grant.fencingToken;
  });

describe('a store of @nestjs/locks', () => {
  afterEach(closeAll);

  it('takes a lock once, also for its owner, in any process', async () => {
    const { one, two, key } = await startPair();
    const grant = await one.acquire(key, 'ann', LONG_MS);
    expect(grant).toEqual({ acquired: true, fencingToken: expect.any(Number) });
    for (const store of [one, two]) {
      expect(await store.acquire(key, 'bob', LONG_MS)).toEqual(NOT_ACQUIRED);
      expect(await store.acquire(key, 'ann', LONG_MS)).toEqual(NOT_ACQUIRED);
    }
  });

  it('releases a lock only for its owner, in any process, and once', async () => {
    const { one, two, key } = await startPair();
    await taken(one, key, 'ann');
    expect(await two.release(key, 'bob')).toBe(false);
    expect(await two.release(key, 'an')).toBe(false);
    expect(await two.acquire(key, 'bob', LONG_MS)).toEqual(NOT_ACQUIRED);
    expect(await two.release(key, 'ann')).toBe(true);
    expect(await one.release(key, 'ann')).toBe(false);
    await taken(two, key, 'bob');
  });

  it('renews a lock only for its owner, in any process', async () => {
    const { a, one, two, key } = await startPair();
    await taken(one, key, 'ann', 5_000);
    expect(await two.renew(key, 'bob', LONG_MS)).toBe(false);
    expect(await two.renew(key, 'ann', LONG_MS)).toBe(true);
    const [holder] = (await a.locks.inspect(key)).holders;
    expect(holder!.remainingMs).toBeGreaterThan(20_000);
    await one.release(key, 'ann');
    expect(await one.renew(key, 'ann', LONG_MS)).toBe(false);
  });

  it('gives greater tokens with each grant, to the same owner as well, and after an expiry', async () => {
    const { one, two, key } = await startPair();
    const tokens: number[] = [];
    for (const store of [one, two, one, two, one, two, one, two, one, two]) {
      tokens.push(await taken(store, key, 'ann'));
      expect(await one.release(key, 'ann')).toBe(true);
    }
    tokens.push(await taken(one, key, 'dead', SHORT_MS));
    tokens.push(await takenLater(two, key, 'ann'));
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
    expect(tokens.every((token) => Number.isSafeInteger(token) && token > 0)).toBe(true);
  });

  it('does not bring back a lock whose lease has ended', async () => {
    const { one, two, key } = await startPair();
    await taken(one, key, 'dead', SHORT_MS);
    await takenLater(two, key, 'next');
    expect([await one.renew(key, 'dead', LONG_MS), await one.release(key, 'dead')]).toEqual([false, false]);
    expect(await two.release(key, 'next')).toBe(true);
  });

  itWithOneClock('takes leases of one millisecond', async () => {
    const { one, two, key } = await startPair();
    const token = await taken(one, key, 'ann', 1);
    expect(await takenLater(two, key, 'bob')).toBeGreaterThan(token);
  });

  it('excludes the callers of the service, and is excluded by them, under one order of tokens', async () => {
    const { a, b, one, two, key } = await startPair();
    const token = await taken(one, key, 'ann');
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await a.locks.inspect(key)).toMatchObject({ holders: [{ where: 'ann', fencingToken: token }] });
    await one.release(key, 'ann');
    const lock = await b.locks.acquire(key);
    expect(lock.fencingToken).toBeGreaterThan(token);
    expect(await two.acquire(key, 'ann', LONG_MS)).toEqual(NOT_ACQUIRED);
    for (const owner of [lock.owner, 'ann']) expect(await two.release(key, owner)).toBe(false);
    expect(lock.held).toBe(true);
    await lock.release();
  });

  it('tells an owner whose lock an operator took away that it is gone', async () => {
    const { b, one, key } = await startPair();
    await taken(one, key, 'ann');
    expect(await b.locks.forceRelease(key)).toBe(true);
    expect([await one.renew(key, 'ann', LONG_MS), await one.release(key, 'ann')]).toEqual([false, false]);
    await taken(one, key, 'ann');
  });

  it('is not ended by the shutdown of the app that took the lock', async () => {
    const { a, one, two, key } = await startPair();
    await taken(one, key, 'ann');
    await a.close();
    expect(await two.acquire(key, 'bob', LONG_MS)).toEqual(NOT_ACQUIRED);
    expect(await two.release(key, 'ann')).toBe(true);
  });

  const NO_TTL: [string, unknown][] = [
    ['0', 0],
    ['NaN', NaN],
    ['half a millisecond', 0.5],
    ['less than nothing', -1],
    ['for ever', Infinity],
    ['a text', '1000'],
    ['nothing', undefined],
    ['more than 30 days', THIRTY_DAYS_MS + 1],
  ];
  it.each(NO_TTL)('refuses a ttl of %s before it asks for anything', async (_what, ttl) => {
    const { one, key } = await startPair();
    const text = /Expected `ttl` to be a whole number of milliseconds from 1 to 2592000000 \(30 days\), got/;
    for (const call of [one.acquire(key, 'ann', ttl as number), one.renew(key, 'ann', ttl as number)]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(text);
    }
    await taken(one, key, 'ann');
  });

  it.each([[''], ['half \ud83d'], ['x'.repeat(129)], [undefined], [7]])('refuses the owner %p', async (owner) => {
    const { one, key } = await startPair();
    const given = owner as string;
    for (const call of [one.acquire(key, given, LONG_MS), one.renew(key, given, LONG_MS), one.release(key, given)]) {
      const error = await rejection<LockConfigurationError>(call);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/Expected `owner` to be a well-formed string of 1 to 128 characters, got/);
    }
  });

  it.each([[''], ['half \ud83d'], ['x'.repeat(1_025)], [undefined], [['a', 'b']]])(
    'refuses the key %p',
    async (key) => {
      const { one } = await startPair();
      const given = key as string;
      for (const call of [one.acquire(given, 'ann', LONG_MS), one.renew(given, 'ann', 1), one.release(given, 'ann')]) {
        expect(await rejection(call)).toBeInstanceOf(LockKeyError);
      }
    },
  );
});
