import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { type Call, servedOf, startTurns } from './start-turns.js';

/** Releases the lock of each call as soon as it has it. */
async function releaseAll(all: readonly Call[]): Promise<void> {
  for (const call of all) {
    await call.value?.release();
    await settled();
  }
}

describe('a turn of 10 ms', () => {
  it.each([
    [9.5, true],
    [10, false],
    [500, false],
  ])('is over, or not, %d ms after the grant: the lock is handed on (%s)', async (ms, isLocal) => {
    const { clock, call, calls, local, sent, finish } = startTurns();
    const [first, second] = calls(2);
    await settled();
    clock.jump(ms);
    await first!.value!.release();
    await settled();
    expect([second!.value!.held, local(), sent()]).toEqual([true, [false, isLocal], isLocal ? [1, 0] : [2, 1]]);
    expect(call()).toEqual({});
    await finish();
  });

  it('counts from the grant of the store, not from the last call that was handed the lock', async () => {
    const { clock, calls, local } = startTurns();
    const all = calls(4);
    await settled();
    for (const { value } of all) {
      clock.jump(4);
      await value!.release();
      await settled();
    }
    expect(local()).toEqual([false, true, true, false]);
  });

  it('counts from the arrival of the grant', async () => {
    const { clock, store, calls, local } = startTurns();
    const answer = store.onAcquire!;
    store.onAcquire = null;
    const [first] = calls(2);
    await settled();
    clock.jump(400);
    store.acquires[0]!.reply(answer(store.acquires[0]!.request));
    await settled();
    await first!.value!.release();
    await settled();
    expect(local()).toEqual([false, true]);
  });

  it('begins anew with the next grant', async () => {
    const { clock, calls, local } = startTurns();
    const all = calls(4);
    await settled();
    clock.jump(10);
    await releaseAll(all);
    expect(local()).toEqual([false, false, true, true]);
  });

  it('ends in the middle of the work: then the next call asks the store, where it waits', async () => {
    const { clock, store, calls, sent, local, finish } = startTurns();
    const [first, second, third] = calls(3);
    await settled();
    store.onAcquire = () => busy({ holder: 'host:1' });
    await clock.advance(9);
    expect(sent()).toEqual([1, 0]);
    await clock.advance(1);
    expect(sent()).toEqual([2, 0]);
    await clock.advance(50);
    // The third one waits for the second.
    expect(sent()).toEqual([2, 0]);
    await first!.value!.release();
    await settled();
    expect([second, sent()]).toEqual([{}, [2, 1]]);
    const { attempt } = store.acquires[1]!.request;
    const grant = { kind: 'granted', fencingToken: 5_000, remainingMs: 3_000, serverTimeMs: 0 } as const;
    store.listener!.onWakeUp(attempt, grant);
    await settled();
    expect(second!.value!.fencingToken).toBe(5_000);
    await second!.value!.release();
    await settled();
    expect([third!.value!.fencingToken, local()]).toEqual([5_001, [false, false, true]]);
    await finish();
  });

  it('is over for a call that comes later, which asks the store at once', async () => {
    const { clock, store, hold, call, sent } = startTurns();
    await hold();
    await clock.advance(9);
    const early = call();
    await settled();
    expect(sent()).toEqual([1, 0]);
    store.onAcquire = () => busy();
    await clock.advance(1);
    expect(sent()).toEqual([2, 0]);
    const late = call();
    await settled();
    expect([sent(), early, late]).toEqual([[2, 0], {}, {}]);
  });

  it('lets a call that comes after it, with nobody before it, ask at once', async () => {
    const { clock, hold, call, sent } = startTurns();
    await hold();
    await clock.advance(10);
    call();
    expect(sent()).toEqual([2, 0]);
  });

  it('lets those who came first ask first when its timer is late', async () => {
    const { clock, store, hold, call, sent } = startTurns();
    await hold();
    const early = call();
    store.onAcquire = null;
    clock.jump(20);
    const late = call();
    expect(sent()).toEqual([1, 0]);
    clock.turn();
    await settled();
    expect(sent()).toEqual([2, 0]);
    store.acquires[1]!.reply(granted(3_000, 2_000));
    await settled();
    expect(servedOf([early, late])).toEqual([true, false]);
  });
});

describe('the end of a turn', () => {
  it('is that of the present one when the last one ended early', async () => {
    const { clock, store, calls, sent } = startTurns();
    const [first, second] = calls(3);
    await settled();
    await clock.advance(2);
    first!.value!.lose('revoked');
    await settled();
    expect(second!.value!.held).toBe(true);
    store.onAcquire = () => busy();
    await clock.advance(9);
    expect(sent()[0]).toBe(2);
    await clock.advance(1);
    expect(sent()[0]).toBe(3);
  });

  it('needs no timer while nobody waits', async () => {
    const { locker, call, hold } = startTurns();
    const { timers } = locker.live;
    // The renewals of both are due at one time.
    await hold({ fair: 'strict' });
    const renewals = locker.live.timers - timers;
    await hold();
    expect(locker.live.timers - timers).toBe(renewals);
    call({ waitMs: Infinity });
    call({ waitMs: Infinity });
    expect(locker.live.timers - timers).toBe(renewals + 1);
  });

  it('needs no timer while a call asks the store', async () => {
    const { clock, store, locker, call } = startTurns();
    store.onAcquire = null;
    call({ waitMs: Infinity });
    const asking = locker.live.timers;
    call({ waitMs: Infinity });
    expect(locker.live.timers).toBe(asking);
    store.acquires[0]!.reply(granted(3_000, 100));
    await clock.advance(10);
    const late = locker.live.timers;
    // Behind the one that asks now.
    call({ waitMs: Infinity });
    expect([locker.live.timers, store.acquires.length]).toEqual([late, 2]);
  });
});

describe('a turn of 64 calls', () => {
  it('hands the lock on 63 times, and then asks the store', async () => {
    const { calls, local, sent, acquired, finish } = startTurns();
    const all = calls(130);
    await settled();
    await releaseAll(all);
    const turn = (first: number) => Array.from({ length: 64 }, (_, i) => first + i);
    const tokens = acquired.map(({ fencingToken }) => fencingToken);
    expect(tokens).toEqual([...turn(1_000), ...turn(2_000), 3_000, 3_001]);
    expect(local()).toEqual(tokens.map((token) => token % 1_000 > 0));
    expect(sent()).toEqual([3, 3]);
    await finish();
  });
});

describe('a turn that had to wait', () => {
  async function startBusy() {
    const parts = startTurns();
    const { store, call } = parts;
    const answer = store.onAcquire!;
    store.onAcquire = () => busy({ ahead: 1, holder: 'host:2' });
    const first = call();
    await settled();
    store.onAcquire = answer;
    const { attempt } = store.acquires[0]!.request;
    const grant = () =>
      store.listener!.onWakeUp(attempt, { kind: 'granted', fencingToken: 500, remainingMs: 3_000, serverTimeMs: 0 });
    return { ...parts, first, grant };
  }

  it('serves the calls that wait when it begins, and no later one', async () => {
    const { call, first, grant, local, sent, finish } = await startBusy();
    const second = call();
    grant();
    const third = call();
    await settled();
    await releaseAll([first, second]);
    expect([third.value!.fencingToken, local(), sent()]).toEqual([1_000, [false, true, false], [2, 1]]);
    await finish();
  });

  it('serves no other call when none waits', async () => {
    const { call, first, grant, local } = await startBusy();
    grant();
    await settled();
    const second = call();
    await releaseAll([first, second]);
    expect(local()).toEqual([false, false]);
  });

  it('is followed by one without bounds if nobody had to be waited for', async () => {
    const { call, first, grant, local } = await startBusy();
    grant();
    await settled();
    const [second, third] = [call(), call()];
    await releaseAll([first, second]);
    const fourth = call();
    await releaseAll([third, fourth]);
    expect(local()).toEqual([false, false, true, true]);
  });

  it('serves those who come later if the first answer was a grant', async () => {
    const { hold, call, local } = startTurns();
    const first = await hold();
    const later = call();
    await first.release();
    await settled();
    const last = call();
    await releaseAll([later, last]);
    expect(local()).toEqual([false, true, true]);
  });
});

describe('the lease of a turn', () => {
  // 2968 ms of 3000 are proven.
  it.each([
    [120, 9, true],
    [20, 9, false],
  ])('of %d ms has to be proven for at least half of it (after %d ms: %s)', async (leaseMs, ms, isLocal) => {
    const { clock, calls, local } = startTurns();
    const [first] = calls(2, { leaseMs });
    await settled();
    clock.jump(ms);
    await first!.value!.release();
    await settled();
    expect(local()).toEqual([false, isLocal]);
  });

  it.each([
    [1_400, true],
    [1_500, false],
    [5_000, false],
  ])('counts by the wall clock, too: after a sleep of %d ms, it is handed on: %s', async (ms, isLocal) => {
    const { clock, calls, local, finish } = startTurns();
    const [first, second] = calls(2);
    await settled();
    clock.wallOffsetMs += ms;
    await first!.value!.release();
    await settled();
    expect([local(), second!.value!.held]).toEqual([[false, isLocal], true]);
    await finish();
  });

  it('is not longer after the wall clock was set back', async () => {
    const { clock, calls, local } = startTurns();
    const all = calls(3);
    await settled();
    clock.wallOffsetMs -= 3_600_000;
    await all[0]!.value!.release();
    await settled();
    expect([local(), all[1]!.value!.remainingMs]).toEqual([[false, true], 2_968]);
    clock.jump(10);
    await all[1]!.value!.release();
    await settled();
    expect(local()).toEqual([false, true, false]);
  });

  it.each([
    ['the monotonic clock', (clock: { jump(ms: number): void }) => clock.jump(3_100)],
    ['the wall clock', (clock: { wallOffsetMs: number }) => void (clock.wallOffsetMs += 3_100)],
  ])('is over by %s after a listener that took long: it is not handed on', async (_name, pass) => {
    const { clock, locker, calls, local, sent } = startTurns();
    let isFirst = true;
    locker.events.on('acquired', () => {
      if (isFirst) pass(clock);
      isFirst = false;
    });
    const [first, second] = calls(2);
    await settled();
    await first!.value!.release();
    await settled();
    expect([local(), second!.value!.held, sent()]).toEqual([[false, false], true, [2, 1]]);
  });

  it('was cut short by a pushed grant: half of what that proved has to be left', async () => {
    const { clock, store, calls, local } = startTurns();
    store.onAcquire = () => busy({ ahead: 1 });
    const [first] = calls(2, { leaseMs: 60_000 });
    await settled();
    store.onAcquire = () => granted(60_000, 9_000);
    const { attempt } = store.acquires[0]!.request;
    store.listener!.onWakeUp(attempt, { kind: 'granted', fencingToken: 5, remainingMs: 30, serverTimeMs: 0 });
    await settled();
    clock.jump(9);
    expect(first!.value!.provenMs).toBeGreaterThan(15);
    await first!.value!.release();
    await settled();
    expect(local()).toEqual([false, true]);
  });
});
