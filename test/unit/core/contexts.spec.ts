import { AsyncLocalStorage } from 'node:async_hooks';
import { onAbort } from '../../../lib/core/abort-listener.js';
import { type Hold } from '../../../lib/core/hold/hold.js';
import { findCurrentHold } from '../../../lib/core/reentry/context.js';
import { type LockEventName } from '../../../lib/core/lock.events.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../lib/core/timing.js';
import { collectGarbage } from '../../support/waiting/collect-garbage.js';
import { startLocker } from '../../support/core/core-parts.js';
import { EVENT_NAMES } from '../../support/apps/event-names.js';
import { eventually } from '../../support/waiting/eventually.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { busy } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

/** Names the context of a call. */
const caller = new AsyncLocalStorage<string>();
const me = (): string => caller.getStore() ?? 'nobody';

/** A locker of the module, and the context in which each event arrived. */
function setUp() {
  const started = caller.run('the module', () => startLocker());
  const heard: [LockEventName, string][] = [];
  for (const name of EVENT_NAMES) started.locker.events.on(name, () => void heard.push([name, me()]));
  return { ...started, heard };
}

describe('a call that waits', () => {
  it('is reported to listeners in its own context, whichever context brings the lock', async () => {
    const { store, locker, enter } = startLocker();
    const heard: string[] = [];
    locker.events.on('acquired', () => heard.push(me()));
    store.onAcquire = () => busy();
    const lock = caller.run('the caller', () => enter('k'));
    await settled();
    const { attempt } = store.acquires[0]!.request;
    const pushed = { kind: 'granted', fencingToken: 9, remainingMs: 3_000, serverTimeMs: 0 } as const;
    caller.run('a message', () => store.listener!.onWakeUp(attempt, pushed));
    await lock;
    expect(heard).toEqual(['the caller']);
  });

  it('is reported in its own context when a message brings the lock before its second answer', async () => {
    const { store, heard, enter } = setUp();
    store.onAcquire = null;
    const lock = caller.run('the caller', () => enter('k'));
    await settled();
    store.listener!.onListening();
    store.acquires[0]!.reply(busy());
    await settled();
    const [attempt, again] = store.acquires.map(({ request }) => request.attempt);
    const pushed = { kind: 'granted', fencingToken: 9, remainingMs: 3_000, serverTimeMs: 0 } as const;
    caller.run('a message', () => store.listener!.onWakeUp(attempt!, pushed));
    await lock;
    expect([again, heard.at(-1)]).toEqual([attempt, ['acquired', 'the caller']]);
  });
});

describe('a timer of the module', () => {
  it('calls back in the context of the module, whichever context sets it', async () => {
    const clock = new FakeClock(0);
    const queue = caller.run('the module', () => new TimerQueue(clock));
    const seen: string[] = [];
    for (const at of [30, 10, 20]) caller.run(`caller ${at}`, () => queue.schedule(at, () => seen.push(me())));
    await clock.advance(30);
    expect(seen).toEqual(['the module', 'the module', 'the module']);
  });
});

/** Each way in which code that is unrelated to the lock notices its loss. */
const NOTICED: Record<string, (lock: Hold, started: ReturnType<typeof setUp>) => unknown> = {
  'by a timer': (_lock, { clock }) => clock.advance(10_000),
  'by a read of the lock': (lock, { clock }) => {
    clock.jump(10_000);
    return lock.lost;
  },
  'by a message': (_lock, { store }) => {
    for (const { request } of store.acquires) store.listener!.onWakeUp(request.attempt, { kind: 'revoked' });
  },
  'by a release': (lock, { store }) => {
    store.onRelease = () => ({ outcome: 'expired', holds: 0, lastToken: 900 });
    return lock.release();
  },
  'by the shutdown': (_lock, { locker }) => locker.close(0),
};

describe.each(Object.entries(NOTICED))('a loss that is noticed %s', (_how, notice) => {
  it.each([
    ['of one key', ['k']],
    ['of several', ['a', 'b']],
  ] as const)(
    'reaches the holder %s in the context of the holder, and listeners of events in that of the module',
    async (_name, keys) => {
      const started = setUp();
      const { store, heard, enter } = started;
      store.groups = (all) => all.map((key) => [key]);
      store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
      const seen: string[] = [];
      const lock = await caller.run('the holder', async () => {
        const held = await enter(keys);
        onAbort(held.signal, () => seen.push(me()));
        return held;
      });
      await caller.run('a stranger', async () => notice(lock, started));
      await settled();
      expect(seen).toEqual(['the holder']);
      expect(new Set(heard.filter(([name]) => name === 'lost').map(([, who]) => who))).toEqual(new Set(['the module']));
    },
  );
});

describe('an event of a call', () => {
  it('is emitted in the context of the caller, which holds nothing there', async () => {
    const { store, heard, under, enter, locker } = setUp();
    const held: unknown[] = [];
    for (const name of ['acquired', 'reentered', 'released', 'acquireFailed'] as const) {
      locker.events.on(name, () => held.push(findCurrentHold()));
    }
    await caller.run('the caller', () => under('k', () => under('k', () => undefined)));
    store.onAcquire = () => busy();
    caller.run('another caller', () => outcomeOf(enter('k', { waitMs: 0 })));
    await settled();
    expect(heard).toEqual([
      ['acquired', 'the caller'],
      ['reentered', 'the caller'],
      ['released', 'the caller'],
      ['acquireFailed', 'another caller'],
    ]);
    expect(held).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('is emitted in the context of the caller even when another context decides it', async () => {
    const { store, heard, enter, locker, clock } = setUp();
    store.onAcquire = () => busy();
    const abort = new AbortController();
    const waiting = (who: string, options = {}) => caller.run(who, () => outcomeOf(enter('k', options)));
    waiting('who is aborted', { signal: abort.signal });
    waiting('who waits too long', { waitMs: 500 });
    waiting('who is shut down');
    await settled();
    heard.length = 0;
    caller.run('a stranger', () => abort.abort());
    await clock.advance(500);
    await caller.run('a stranger', () => locker.close(0));
    expect(heard).toEqual([
      ['acquireFailed', 'who is aborted'],
      ['timedOut', 'the module'],
      ['acquireFailed', 'who waits too long'],
      ['acquireFailed', 'who is shut down'],
    ]);
  });
});

describe('the background work of the module', () => {
  it('runs renewals, and emits their events, in the context of the module', async () => {
    const { clock, store, heard, enter } = setUp();
    const renewers: string[] = [];
    const { onRenew } = store;
    store.onRenew = (requests) => {
      renewers.push(me());
      return (onRenew as (all: typeof requests) => ReturnType<NonNullable<typeof onRenew>>)(requests);
    };
    await caller.run('the holder', () => enter('k'));
    caller.run('a stranger', () => store.listener!.onMessagesMissed());
    await clock.advance(3_000);
    expect([new Set(renewers), renewers.length > 1]).toEqual([new Set(['the module']), true]);
    expect(heard.filter(([name]) => name === 'renewed')[0]).toEqual(['renewed', 'the module']);
  });

  it('sends requests again in the context of the module when a message wakes it', async () => {
    const { store, enter } = setUp();
    const askers: string[] = [];
    store.onAcquire = () => {
      askers.push(me());
      return busy();
    };
    void caller.run('the caller', () => outcomeOf(enter('k')));
    await settled();
    caller.run('a stranger', () => store.listener!.onListening());
    await settled();
    expect(askers).toEqual(['the caller', 'the module']);
  });

  it('gives back a cancelled attempt in the context of the module', async () => {
    const { store, enter } = setUp();
    store.onAcquire = () => busy();
    const [abort, releasers] = [new AbortController(), [] as string[]];
    store.onRelease = () => {
      releasers.push(me());
      return { outcome: 'cancelled', holds: 0, lastToken: 0 };
    };
    void caller.run('the caller', () => outcomeOf(enter('k', { signal: abort.signal })));
    await settled();
    caller.run('a stranger', () => abort.abort());
    await settled();
    expect(releasers).toEqual(['the module']);
  });

  it('reports a dropped handle in the context of the module', async () => {
    const { clock, locker, enter, reporter } = setUp();
    const reports: string[] = [];
    reporter.error = () => void reports.push(me());
    await caller.run('the caller', async () => void locker.handles.handOut(await enter('k', { leaseMs: 60_000 })));
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    await eventually(async () => {
      await caller.run('a stranger', collectGarbage);
      return reports.length > 0;
    });
    expect(reports).toEqual(['the module']);
  });
});
