import { type Lock } from '../../../../lib/core/lock.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../lib/core/timing.js';
import { heldStreamLock } from '../../../../lib/interceptor/streams/stream-lock.js';
import { lockOptions, NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { released } from '../../../support/core/fake-store.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { eventually } from '../../../support/waiting/eventually.js';

function setUp() {
  const started = startLocker();
  const { clock, locker, store } = started;
  const handOut = async (key: string | readonly string[]): Promise<Lock> =>
    locker.handles.handOut(await locker.acquire(locker.request([key].flat(), lockOptions())));
  /** Takes a handle and drops it, in a separate function: nothing on the stack refers to it then. */
  const take = async (key: string | readonly string[]): Promise<void> => void (await handOut(key));
  /** The same, until it is watched. */
  const takeAndDrop = async (key: string | readonly string[]): Promise<void> => {
    await take(key);
    await clock.advance(WATCH_HANDLES_AFTER_MS);
  };
  /** Resolves when the handle of `key`, which was dropped last, is released, and all finalizers have run. */
  const collected = async (key: string): Promise<void> => {
    await eventually(async () => (await collectGarbage(), store.givenBack.includes(key)));
    for (let i = 0; i < 5; i += 1) await collectGarbage();
  };
  return { ...started, handOut, take, takeAndDrop, collected };
}

describe('a handle that is dropped without a release', () => {
  it('is not confused with one that is still referenced, was released, or was lost and reported', async () => {
    const { clock, store, reporter, handOut, takeAndDrop, collected } = setUp();
    const renewing = store.onRenew;
    store.onRenew = null;
    await takeAndDrop('lost');
    await clock.advance(3_000);
    store.onRenew = renewing;
    const kept = await handOut('kept');
    await (async () => (await handOut('released')).release())();
    // A dropped one proves that the finalizers have run.
    await takeAndDrop('dropped');
    await collected('dropped');
    expect([store.givenBack, kept.held]).toEqual([['released', 'dropped'], true]);
    const about = (text: string) => reporter.lines.filter((line) => line.includes(`"${text}"`)).length;
    expect(['lost', 'kept', 'released', 'dropped'].map(about)).toEqual([1, 0, 0, 1]);
  });

  it('is not confused with a stream whose lock was released before it was returned', async () => {
    const { clock, locker, reporter, under, takeAndDrop, collected } = setUp();
    await under('released', async (lock) => {
      await lock.release();
      heldStreamLock(lock, locker, 3_000);
    });
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    // A dropped one proves that the finalizers have run.
    await takeAndDrop('dropped');
    await collected('dropped');
    expect(reporter.lines).toEqual([expect.stringContaining('"dropped"')]);
  });

  it('aborts its signal, which the caller may have kept', async () => {
    const { clock, locker, handOut, collected } = setUp();
    const lost: string[] = [];
    locker.events.on('lost', ({ key }) => lost.push(key));
    const signal = await (async () => (await handOut('signal')).signal)();
    await (async () => void (await handOut('plain')))();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    await collected('signal');
    await collected('plain');
    expect([signal.reason, lost]).toMatchObject([{ code: 'LOCK_LOST', reason: 'dropped' }, ['signal']]);
  });

  it('is kept, and its lock held, until handles of its age are watched', async () => {
    const { clock, store, locker, handOut, take, collected } = setUp();
    const first = await handOut('first');
    await take('dropped');
    await first.release();
    await clock.advance(WATCH_HANDLES_AFTER_MS - 1);
    for (let i = 0; i < 5; i += 1) await collectGarbage();
    expect([store.givenBack, locker.live.locks]).toEqual([['first'], 1]);
    await clock.advance(1);
    await collected('dropped');
    expect(locker.live).toEqual(NOTHING);
  });
});

describe('a lock under which code runs', () => {
  it('is released when its block ends', async () => {
    const { under, store } = startLocker();
    await under('k', async (lock) => {
      await lock[Symbol.asyncDispose]();
      expect(store.givenBack).toEqual(['k']);
    });
  });

  it('cannot be transferred, since its call releases it', async () => {
    const { under } = startLocker();
    await under('k', (lock) => expect(lock.transfer()).rejects.toMatchObject({ code: 'LOCK_CONFIGURATION', key: 'k' }));
  });
});

describe('a handle that is released twice', () => {
  it('answers the second call when the store has answered the first', async () => {
    const { store, handOut } = setUp();
    const lock = await handOut('twice');
    store.onRelease = null;
    const results: boolean[] = [];
    const releases = [lock.release(), lock.release()].map((one) => one.then((wasHeld) => void results.push(wasHeld)));
    await settled();
    expect(results).toEqual([]);
    store.releases[0]!.reply(released());
    await Promise.all(releases);
    expect([results, store.givenBack]).toEqual([[true, false], ['twice']]);
  });
});
