import { type Lock } from '../../../../lib/core/lock.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../lib/core/timing.js';
import { HandleRegistry } from '../../../../lib/core/hold/handle.js';
import { TimerQueue } from '../../../../lib/core/timer-queue.js';
import { heldLock, lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { FakeClock } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { eventually } from '../../../support/waiting/eventually.js';

/** Several rounds, each with turns in between in which finalizers may run. */
async function collectFully(): Promise<void> {
  for (let i = 0; i < 5; i += 1) await collectGarbage();
}

function setUp() {
  const started = startLocker();
  const { locker } = started;
  const handOut = async (key: string | readonly string[]): Promise<Lock> =>
    locker.handles.handOut(await locker.acquire(locker.request([key].flat(), lockOptions())));
  return { ...started, handOut };
}

/** Takes a handle and drops it: in a function of its own, so that nothing on the stack refers to it. */
async function take(handOut: () => Promise<Lock>): Promise<void> {
  await handOut();
}

/** The same, until it is watched. */
async function takeAndDrop({ clock }: { clock: FakeClock }, handOut: () => Promise<Lock>): Promise<void> {
  await take(handOut);
  await clock.advance(WATCH_HANDLES_AFTER_MS);
}

describe('a handle that is dropped without a release', () => {
  it('is released and reported exactly once', async () => {
    const { clock, store, reporter, locker, handOut } = setUp();
    await takeAndDrop({ clock }, () => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.releases.length > 0));
    await collectFully();
    expect([store.givenBack, locker.live.locks]).toEqual([['dropped'], 0]);
    expect(reporter.lines).toEqual([
      expect.stringMatching(/^error A handle of the lock "dropped" was dropped without a release; releasing it now\./),
    ]);
  });

  it('is reported on one line, whatever its key contains', async () => {
    const { clock, store, reporter, handOut } = setUp();
    await takeAndDrop({ clock }, () => handOut('dropped\n\u001B[31mforged'));
    await eventually(async () => (await collectGarbage(), store.releases.length > 0));
    expect(reporter.lines).toEqual([
      expect.stringMatching(/^error A handle of the lock "dropped\\n\\u001b\[31mforged" was dropped/),
    ]);
  });

  it('is not confused with one that is still referenced, or that was released', async () => {
    const { clock, store, reporter, handOut } = setUp();
    const kept = await handOut('kept');
    await takeAndDrop({ clock }, async () => {
      const lock = await handOut('released');
      await lock.release();
      return lock;
    });
    // A dropped one as the proof that the finalizers have run.
    await takeAndDrop({ clock }, () => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.givenBack.includes('dropped')));
    await collectFully();
    expect(store.givenBack.toSorted()).toEqual(['dropped', 'released']);
    expect([kept.held, reporter.lines.length]).toEqual([true, 1]);
  });

  it('is ignored when its lock was lost, since the loss was reported', async () => {
    const { clock, store, reporter, locker, handOut } = setUp();
    store.onRenew = null;
    await takeAndDrop({ clock }, () => handOut('lost'));
    await clock.advance(3_000);
    expect(locker.live.locks).toBe(0);
    store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
    await takeAndDrop({ clock }, () => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.givenBack.includes('dropped')));
    await collectFully();
    expect(store.givenBack).toEqual(['dropped']);
    expect(reporter.lines.filter((line) => line.includes('"lost"'))).toHaveLength(1);
  });

  it('releases all its groups', async () => {
    const { clock, store, handOut } = setUp();
    store.groups = (keys) => keys.map((key) => [key]);
    await takeAndDrop({ clock }, () => handOut(['a', 'b']));
    await eventually(async () => (await collectGarbage(), store.releases.length > 1));
    expect(store.givenBack.toSorted()).toEqual(['a', 'b']);
  });
});

describe('a handle that was dropped a moment ago', () => {
  it('is kept, and its lock held, until handles of its age are watched', async () => {
    const { clock, store, locker, handOut } = setUp();
    await take(() => handOut('dropped'));
    await clock.advance(WATCH_HANDLES_AFTER_MS - 1);
    await collectFully();
    expect([store.releases.length, locker.live.locks]).toEqual([0, 1]);
    await clock.advance(1);
    await eventually(async () => (await collectGarbage(), store.releases.length > 0));
    expect(locker.live).toMatchObject({ locks: 0, timers: 0 });
  });

  it('leaves nothing that watches it when it is released before', async () => {
    const [clock, watched] = [new FakeClock(), [] as object[]];
    const watchGarbage = () => ({
      register: (target: object) => void watched.push(target),
      unregister: () => undefined,
    });
    const timers = new TimerQueue(clock);
    const old: object[] = [];
    const registry = new HandleRegistry(watchGarbage, timers, new FakeReporter(), (lock) => void old.push(lock));
    const [first, second, third] = [heldLock(), heldLock(), heldLock()].map((lock) => registry.handOut(lock));
    for (const lock of [second, first]) await lock!.release();
    expect(timers.size).toBe(1);
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    expect([watched, old.length, timers.size]).toEqual([[third], 1, 0]);
    await registry.handOut(heldLock()).release();
    expect(timers.size).toBe(0);
  });
});

describe('a handle', () => {
  it('exposes the state and the methods of its lock', async () => {
    const { store, handOut } = setUp();
    const lock = await handOut(['b', 'a']);
    expect(lock).toMatchObject({ key: 'b, a', keys: ['b', 'a'], mode: 'write', held: true });
    expect([lock.fencingToken, lock.fencingTokens, lock.remainingMs]).toEqual([101, [101, 100], 2_968]);
    expect([lock.owner, lock.signal.aborted]).toEqual([store.acquires[0]!.request.attempt, false]);
    await lock.extend(9_000);
    expect(store.renews[0]!.request.map(({ leaseMs }) => leaseMs)).toEqual([9_000, 9_000]);
    await lock.downgrade();
    expect([lock.mode, store.downgrades.length]).toEqual(['read', 2]);
    await lock[Symbol.asyncDispose]();
    await lock.release();
    expect([lock.held, store.givenBack.toSorted()]).toEqual([false, ['a', 'b']]);
  });
});
