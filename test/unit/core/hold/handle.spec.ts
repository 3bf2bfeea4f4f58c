import { describe, expect, it } from '@jest/globals';
import { type Lock } from '../../../../lib/core/lock.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
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
async function takeAndDrop(handOut: () => Promise<Lock>): Promise<void> {
  await handOut();
}

describe('a handle that is dropped without a release', () => {
  it('is released and reported exactly once', async () => {
    const { store, reporter, locker, handOut } = setUp();
    await takeAndDrop(() => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.releases.length > 0));
    await collectFully();
    expect([store.givenBack, locker.live.locks]).toEqual([['dropped'], 0]);
    expect(reporter.lines).toEqual([
      expect.stringMatching(/^error A handle of the lock "dropped" was dropped without a release; releasing it now\./),
    ]);
  });

  it('is reported on one line, whatever its key contains', async () => {
    const { store, reporter, handOut } = setUp();
    await takeAndDrop(() => handOut('dropped\n\u001B[31mforged'));
    await eventually(async () => (await collectGarbage(), store.releases.length > 0));
    expect(reporter.lines).toEqual([
      expect.stringMatching(/^error A handle of the lock "dropped\\n\\u001b\[31mforged" was dropped/),
    ]);
  });

  it('is not confused with one that is still referenced, or that was released', async () => {
    const { store, reporter, handOut } = setUp();
    const kept = await handOut('kept');
    await takeAndDrop(async () => {
      const lock = await handOut('released');
      await lock.release();
      return lock;
    });
    // A dropped one as the proof that the finalizers have run.
    await takeAndDrop(() => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.givenBack.includes('dropped')));
    await collectFully();
    expect(store.givenBack.toSorted()).toEqual(['dropped', 'released']);
    expect([kept.held, reporter.lines.length]).toEqual([true, 1]);
  });

  it('is ignored when its lock was lost, since the loss was reported', async () => {
    const { clock, store, reporter, locker, handOut } = setUp();
    store.onRenew = null;
    await takeAndDrop(() => handOut('lost'));
    await clock.advance(3_000);
    expect(locker.live.locks).toBe(0);
    store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
    await takeAndDrop(() => handOut('dropped'));
    await eventually(async () => (await collectGarbage(), store.givenBack.includes('dropped')));
    await collectFully();
    expect(store.givenBack).toEqual(['dropped']);
    expect(reporter.lines.filter((line) => line.includes('"lost"'))).toHaveLength(1);
  });

  it('releases all its groups', async () => {
    const { store, handOut } = setUp();
    store.groups = (keys) => keys.map((key) => [key]);
    await takeAndDrop(() => handOut(['a', 'b']));
    await eventually(async () => (await collectGarbage(), store.releases.length > 1));
    expect(store.givenBack.toSorted()).toEqual(['a', 'b']);
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
