import { LockConfigurationError, type LockState } from '../../lib/index.js';
import { givenClient } from '../support/connections.js';
import { eventually } from '../support/eventually.js';
import { ownRedis, rejection } from '../support/faults.js';
import { type LockApp, closeAll, startApp } from '../support/lock-app.js';

async function listed({ locks }: LockApp, options?: { prefix?: string; limit?: number }): Promise<LockState[]> {
  const states: LockState[] = [];
  for await (const state of locks.list(options)) states.push(state);
  return states;
}

const keysOf = (states: readonly LockState[]) => states.map(({ key }) => key).toSorted();

async function startAlone() {
  const { admin, url } = await ownRedis();
  return {
    admin,
    url,
    a: await startApp({ connection: url }),
    b: await startApp({ connection: url, keyPrefix: 'other:' }),
  };
}

describe('list', () => {
  afterEach(closeAll);

  it('goes on without a given client that was closed', async () => {
    const { a, url } = await startAlone();
    const client = givenClient(url, {});
    const b = await startApp({ connection: client });
    await a.locks.acquire('held');
    expect(keysOf(await listed(b))).toEqual(['held']);
    client.disconnect();
    await eventually(() => client.status === 'end');
    expect(keysOf(await listed(b))).toEqual(['held']);
  });

  it('gives the locks that are held or waited for, as inspect does, each once, and no other', async () => {
    const { a, b } = await startAlone();
    expect(await listed(a)).toEqual([]);
    const names = Array.from({ length: 250 }, (_, i) => `order:${i}`);
    const locks = await Promise.all(names.map((name) => a.locks.acquire(name, { leaseMs: 600_000 })));
    await a.locks.acquire('shared', { mode: 'read', leaseMs: 600_000 });
    await a.locks.withLock('free', () => undefined);
    await b.locks.acquire('elsewhere');
    const waiting = a.locks.acquire('shared', { waitMs: 25_000 });
    await eventually(async () => (await a.locks.inspect('shared')).waiters === 1);
    const states = await listed(a);
    expect(keysOf(states)).toEqual([...names, 'shared'].toSorted());
    const shared = states.find(({ key }) => key === 'shared');
    expect(shared).toMatchObject({ mode: 'read', waiters: 1, holders: [{ pid: process.pid, mode: 'read' }] });
    const first = states.find(({ key }) => key === 'order:0');
    expect(first).toMatchObject({ mode: 'write', fencingToken: locks[0]!.fencingToken, holders: [{}] });
    expect(keysOf(await listed(b))).toEqual(['elsewhere']);
    await a.locks.forceRelease('shared');
    await (await waiting).release();
  });

  it.each([
    ['order:', ['order:1', 'order:2']],
    ['order:1', ['order:1']],
    ['*', ['*', '*:1']],
    ['?', ['?']],
    ['[a]', ['[a]']],
    ['[^a]', ['[^a]b']],
    ['a\\', ['a\\b']],
    ['{x}', ['{x}:1']],
    ['100%', ['100%', '100%25']],
    ['ü', ['üb']],
    ['missing', []],
  ])('gives those whose key begins with %p, which is no pattern', async (prefix, expected) => {
    const { a } = await startAlone();
    const names = ['order:1', 'order:2', '*', '*:1', '?', '[a]', '[^a]b', 'a', 'ab', 'a\\b', '{x}:1', '100%', '100%25'];
    for (const name of [...names, 'üb', 'x']) await a.locks.acquire(name);
    expect(keysOf(await listed(a, { prefix }))).toEqual(expected.toSorted());
  });

  it('ends after `limit` locks, or when the reader has seen enough', async () => {
    const { a } = await startAlone();
    await Promise.all(Array.from({ length: 30 }, (_, i) => a.locks.acquire(`key-${i}`)));
    expect(await listed(a, { limit: 7 })).toHaveLength(7);
    expect(await listed(a, { limit: 30 })).toHaveLength(30);
    expect(await listed(a, { limit: 31, prefix: 'key-' })).toHaveLength(30);
    let seen = 0;
    for await (const { mode } of a.locks.list()) {
      expect(mode).toBe('write');
      if (++seen === 3) break;
    }
    expect(seen).toBe(3);
  });

  it('skips keys of another type, and hashes that are no lock, under its prefix', async () => {
    const { admin, a } = await startAlone();
    await a.locks.acquire('mine');
    await admin.set('lock:text', 'x');
    await admin.rpush('lock:list', 'x');
    await admin.sadd('lock:set', 'x');
    await admin.zadd('lock:sorted', 1, 'x');
    await admin.xadd('lock:stream', '*', 'x', 'y');
    await admin.hset('lock:hash', 'x', 'y');
    expect(keysOf(await listed(a))).toEqual(['mine']);
    expect(await admin.get('lock:text')).toBe('x');
  });

  it.each([
    { limit: 0 },
    { limit: -1 },
    { limit: 1.5 },
    { limit: NaN },
    { limit: '10' },
    { prefix: 7 },
    { prefix: null },
    { limit: null },
    { limits: 5 },
    { prefix: '\ud800' },
    null,
  ])('refuses options that make no sense with LockConfigurationError: %p', async (options) => {
    const { a, admin } = await startAlone();
    expect(await rejection(listed(a, options as object))).toBeInstanceOf(LockConfigurationError);
    expect(await admin.info('commandstats')).not.toContain('cmdstat_scan');
  });
});
