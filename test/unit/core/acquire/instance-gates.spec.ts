import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, gone } from '../../../support/core/fake-store.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { type Call, startCalls } from './start-calls.js';

type Options = Parameters<ReturnType<typeof startCalls>['call']>[0];

const LIMIT = { mode: 'read', permits: 20, perInstance: 2 } as const;

type Started = ReturnType<typeof startGates>;

/** A locker whose calls for the key `k` have 20 permits, and two of them in this process, unless their options differ. */
function startGates() {
  const parts = startCalls(LIMIT);
  const asked = (): number => parts.store.acquires.length;
  return { ...parts, asked };
}

/** Two calls have the permits of the process, and `count` calls wait behind them. */
async function startFull(count = 1) {
  const started = startGates();
  const [first, second, ...waiting] = started.calls(2 + count);
  await settled();
  return { ...started, first: first!.value!, second: second!.value!, waiting };
}

/** Lets the calls continue that wait in the store. */
async function letIn({ store, answer, finish }: Started): Promise<void> {
  store.onAcquire = answer;
  store.listener!.onListening();
  await settled();
  await finish();
}

describe('the calls of a process with `perInstance`', () => {
  it('continue when one that they waited behind leaves', async () => {
    const { call, asked, finish } = await startFull(0);
    const abort = new AbortController();
    const narrow = call({ perInstance: 1, signal: abort.signal });
    const wide = call({ perInstance: 3 });
    abort.abort();
    await settled();
    expect([asked(), narrow.error, wide.value?.held]).toEqual([3, abort.signal.reason, true]);
    await finish();
  });

  it('report once that they wait, and how many are ahead', async () => {
    const started = await startFull(0);
    const events = started.heard('waiting');
    started.calls(2);
    const waiting = { key: 'k', mode: 'read', holder: undefined };
    const expected = [0, 1].map((ahead) => ({ ...waiting, ahead }));
    expect(events).toMatchObject(expected);
    started.store.onAcquire = () => busy();
    await started.first.release();
    await settled();
    expect([started.asked(), events]).toMatchObject([3, expected]);
    await letIn(started);
  });
});

describe('a call that its process has no permit for', () => {
  it('is refused at once if it does not wait, although it would have one but for others that wait already', async () => {
    const { call, asked, finish } = await startFull(0);
    call({ perInstance: 1 });
    const refused = call({ waitMs: 0, perInstance: 5 });
    await settled();
    expect(refused.error).toMatchObject({ code: 'LOCK_BUSY', key: 'k', perInstance: 5, permits: undefined });
    expect(refused.error.message).toBe(
      'The lock "k" (read) is busy: this instance has all permits that it may have (`perInstance: 5`), and the call does not ' +
        "wait. Try later, or let it wait (`waitMs`, and for a method `ifBusy: 'wait'`).",
    );
    expect(asked()).toBe(2);
    await finish();
  });

  it('waits until its `waitMs` is over, and names the limit', async () => {
    const { clock, heard, call, finish } = await startFull();
    const [late, failed] = [heard('timedOut'), heard('acquireFailed')];
    const waiting = call({ waitMs: 500 });
    await clock.advance(499);
    expect(waiting).toEqual({});
    await clock.advance(1);
    const whose = { waitedMs: 500, perInstance: 2, holder: undefined };
    expect(waiting.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', ...whose });
    expect(waiting.error.message).toBe(
      'The lock "k" (read) was still busy after 500 ms: this instance has all permits that it may have (`perInstance: 2`), ' +
        'with 1 waiting ahead. Wait longer (`waitMs`), or hold it for less time.',
    );
    expect(late).toMatchObject([{ key: 'k', waitedMs: 500 }]);
    expect(failed).toMatchObject([{ reason: 'timeout', waited: true, waitedMs: 500 }]);
    await finish();
  });

  it('is refused at once if `maxWaiters` calls wait, at its gate and in the store', async () => {
    const started = startGates();
    const { store, call, calls, asked } = started;
    await started.hold();
    store.onAcquire = () => busy();
    calls(2);
    await settled();
    const [second, third] = [call({ maxWaiters: 2 }), call({ maxWaiters: 3 })];
    await settled();
    expect(second.error).toMatchObject({ code: 'LOCK_BUSY', maxWaiters: 2, perInstance: undefined });
    expect([third, asked()]).toEqual([{}, 2]);
    await letIn(started);
    expect(store.acquires.every(({ request }) => request.maxWaiters === 0)).toBe(true);
  });
});

describe('a call with a permit of its process', () => {
  it('has a second for the first answer of the store, although other calls have the lock', async () => {
    const { clock, store, call, hold } = startGates();
    await hold();
    store.onAcquire = null;
    const second = call({ waitMs: 50 });
    await clock.advance(999);
    expect(second).toEqual({});
    await clock.advance(1);
    expect(second.error).toMatchObject({ code: 'LOCK_STORE' });
  });
});

describe('a call that gets a permit of its process late', () => {
  it('has a second more for the first answer of the store than its `waitMs`', async () => {
    const { clock, store, call, first } = await startFull(0);
    const waiting = call({ waitMs: 500 });
    await clock.advance(400);
    store.onAcquire = null;
    await first.release();
    await clock.advance(999);
    expect(waiting).toEqual({});
    await clock.advance(101);
    expect(waiting.error).toMatchObject({ code: 'LOCK_STORE' });
  });
});

describe('a permit of a process', () => {
  it('is free again when a listener of `acquired` releases the lock', async () => {
    const { locker, call, asked, finish } = startGates();
    const release = (): void => {
      for (const hold of locker.holds) void hold.release();
    };
    locker.events.on('acquired', release);
    const [first, second] = [call({ perInstance: 1 }), call({ perInstance: 1 })];
    await settled();
    expect([asked(), first.value?.held, second.value?.held]).toEqual([2, false, false]);
    await finish();
  });

  it('is free again when its call stops waiting in the store', async () => {
    const { store, answer, call, calls, asked, finish } = startGates();
    store.onAcquire = () => busy();
    const abort = new AbortController();
    calls(2, { signal: abort.signal });
    const next = call();
    await settled();
    store.onAcquire = answer;
    abort.abort();
    await settled();
    expect([asked(), next.value?.held]).toEqual([3, true]);
    await finish();
  });

  it.each<[string, (started: Awaited<ReturnType<typeof startFull>>) => unknown]>([
    ['is lost', ({ first }) => first.lose('revoked')],
    ['is transferred', ({ first }) => first.transferHandle()],
    [
      'is found lost by a renewal',
      ({ store, clock, first }) => {
        store.onRenew = (all) =>
          all.map(({ attempt }) =>
            attempt === first.attempt ? gone(1_000) : { outcome: 'renewed', remainingMs: 3_000 },
          );
        return clock.advance(1_100);
      },
    ],
  ])('is free again when the lock %s, and only once', async (_what, end) => {
    const started = await startFull(4);
    const { first, second, asked, locker } = started;
    await end(started);
    await settled();
    expect(asked()).toBe(3);
    await first.release();
    await settled();
    expect([asked(), locker.live.waiting]).toEqual([3, 3]);
    await second.release();
    await settled();
    expect(asked()).toBe(4);
  });
});

describe('the gate of a key', () => {
  it.each<[string, 'timedOut' | 'acquireFailed', Options]>([
    ['is over time', 'timedOut', { waitMs: 500 }],
    ['fails', 'acquireFailed', { waitMs: 500 }],
    ['is refused', 'acquireFailed', { waitMs: 0 }],
  ])(
    'admits all calls that a listener begins after it has freed the key, when a call %s',
    async (_when, name, options) => {
      const { clock, store, locker, call, finish } = startGates();
      const first = call({ perInstance: 1 });
      await settled();
      const begun: Call[] = [];
      const listen = (): void => {
        locker.events.off(name, listen);
        void first.value!.release();
        begun.push(call({ perInstance: 1 }), call({ perInstance: 1 }));
      };
      locker.events.on(name, listen);
      call({ perInstance: 1, ...options });
      await clock.advance(500);
      expect([store.acquires.length, begun[0]!.value?.held, begun[1]]).toEqual([2, true, {}]);
      await begun[0]!.value!.release();
      await settled();
      expect([store.acquires.length, begun[1]!.value?.held]).toEqual([3, true]);
      await finish();
    },
  );

  it('is forgotten when no call wants the key any longer', async () => {
    const { store, enter } = startLocker();
    /** Returns the memory in use after calls for this number of distinct keys. */
    const useKeys = async (name: string): Promise<number> => {
      for (let i = 0; i < 5_000; i += 1) await (await enter(`${name}:${i}`, LIMIT)).release();
      store.acquires.length = store.releases.length = 0;
      await collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const before = await useKeys('first');
    // Gates that stay take some 4 MB.
    expect((await useKeys('next')) - before).toBeLessThan(2_000_000);
  });
});
