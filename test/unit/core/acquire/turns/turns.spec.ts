import { settled } from '../../../../support/core/fake-clock.js';
import { NOTHING, servedOf, startTurns } from './start-turns.js';

describe('calls of one process for one key', () => {
  it('send one command together, and are served first in, first out', async () => {
    const { store, locker, calls, sent, local, finish } = startTurns();
    const all = calls(4);
    await settled();
    for (let served = 1; served <= 4; served += 1) {
      expect(servedOf(all)).toEqual(all.map((_, i) => i < served));
      expect(await all[served - 1]!.value!.release()).toBe(true);
      await settled();
    }
    expect([sent(), store.renews, local()]).toEqual([[1, 1], [], [false, true, true, true]]);
    expect(locker.live).toEqual(NOTHING);
    await finish();
  });

  it('hand on the hold of the store as it is, each with the next token', async () => {
    const { store, clock, calls, acquired } = startTurns();
    const all = calls(3);
    await settled();
    const [first] = all;
    const lease = [first!.value!.deadline, first!.value!.wallDeadline];
    clock.jump(3);
    await first!.value!.release();
    await settled();
    const second = all[1]!.value!;
    expect([second.deadline, second.wallDeadline]).toEqual(lease);
    expect([second.held, second.fencingToken, second.heldMs, second.attempt]).toEqual([
      true,
      1_001,
      0,
      first!.value!.attempt,
    ]);
    // What the store knows is the grant.
    expect(second.refs).toEqual(first!.value!.refs);
    await second.release();
    await settled();
    await all[2]!.value!.release();
    expect(acquired.map(({ fencingToken }) => fencingToken)).toEqual([1_000, 1_001, 1_002]);
    expect(store.releases.map(({ request }) => request.attempt)).toEqual([first!.value!.attempt]);
  });

  it('have one lock at a time: it ends for one before the next one has it', async () => {
    const { locker, calls } = startTurns();
    const all = calls(3);
    await settled();
    const held = (): boolean[] => all.map(({ value }) => value?.held ?? false);
    for (let i = 0; i < 3; i += 1) {
      expect(held()).toEqual(all.map((_, other) => other === i));
      const releasing = all[i]!.value!.release();
      // At once, before anybody is called back.
      expect([all[i]!.value!.held, all[i]!.value!.isEnded]).toEqual([false, true]);
      expect(locker.holds.size).toBe(i === 2 ? 0 : 1);
      await releasing;
      await settled();
    }
  });

  it('hand it on once, however often one of them is released', async () => {
    const { calls, sent } = startTurns();
    const all = calls(3);
    await settled();
    const lock = all[0]!.value!;
    expect(await Promise.all([lock.release(), lock.release()])).toEqual([true, false]);
    await settled();
    expect(await lock.release()).toBe(false);
    lock.endLost();
    await settled();
    expect([servedOf(all), all[1]!.value!.held, sent()]).toEqual([[true, true, false], true, [1, 0]]);
  });

  it('hand it on when the last nested call has left, too', async () => {
    const { calls } = startTurns();
    const all = calls(2);
    await settled();
    const lock = all[0]!.value!;
    lock.addNestedCall();
    await lock.release();
    await settled();
    expect(servedOf(all)).toEqual([true, false]);
    lock.removeNestedCall();
    await settled();
    expect([servedOf(all), all[1]!.value!.held]).toEqual([[true, true], true]);
  });

  it('do not mix with those for other keys', async () => {
    const { call, sent } = startTurns();
    const [a, b] = [call({}, ['a']), call({}, ['b'])];
    const waiting = call({}, ['b']);
    await settled();
    await a.value!.release();
    await settled();
    expect(waiting).toEqual({});
    await b.value!.release();
    await settled();
    expect([waiting.value!.key, waiting.value!.fencingToken, sent()]).toEqual(['b', 2_001, [2, 1]]);
  });

  it('begin anew when nobody wanted the lock for a while', async () => {
    const { hold, sent, acquired } = startTurns();
    for (let i = 0; i < 3; i += 1) await (await hold()).release();
    expect(sent()).toEqual([3, 3]);
    expect(acquired.map(({ local }) => local)).toEqual([false, false, false]);
    expect(new Set(acquired.map(({ attempt }) => attempt)).size).toBe(3);
  });

  it('tell the watchdog of the present holder only', async () => {
    const { clock, store, call, calls } = startTurns();
    const all = calls(2);
    await settled();
    await all[0]!.value!.release();
    await settled();
    await clock.advance(2_000);
    expect(store.renews.length).toBeGreaterThan(0);
    const { attempt } = store.acquires[0]!.request;
    for (const { request } of store.renews) {
      expect(request).toMatchObject([{ attempt, fencingToken: 1_000, leaseMs: 3_000 }]);
    }
    expect([all[0]!.value!.lost, all[1]!.value!.held]).toEqual([null, true]);
    const next = call();
    await settled();
    await all[1]!.value!.release();
    await settled();
    expect(next.value!.held).toBe(true);
  });
});

describe('the count of waiting calls', () => {
  it('has those that wait in the process, by key', async () => {
    const { locker, call, calls } = startTurns();
    const [, second] = calls(3);
    call({}, ['other']);
    expect(locker.live.waiting).toBe(4);
    await settled();
    expect(locker.live).toMatchObject({ locks: 2, waiting: 2 });
    const base = { key: 'k', mode: 'write', holders: [], fencingToken: 1 } as const;
    const state = { ...base, waiters: 5, queue: [], permits: null } as const;
    expect(locker.withWaiters(state).waiters).toBe(7);
    expect(locker.withWaiters({ ...state, key: 'other' }).waiters).toBe(5);
    expect(second).toEqual({});
  });
});
