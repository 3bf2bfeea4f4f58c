import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type LockEventName, LockEvents } from '../../../lib/core/lock.events.js';
import { LockConfigurationError, LockStoreError } from '../../../lib/core/lock.errors.js';
import { messageOf } from '../../../lib/core/reporter.js';
import { EVENT_NAMES } from '../../support/apps/event-names.js';
import { lockOptions, NOTHING, startLocker } from '../../support/core/core-parts.js';
import { FakeReporter, busy } from '../../support/core/fake-store.js';
import { settled } from '../../support/core/fake-clock.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

const LOCK = { key: 'k', keys: ['k'], template: undefined, mode: 'write', where: '', note: undefined } as const;
const EVENT = { ...LOCK, reason: 'busy' } as const;

function setUp() {
  const reporter = new FakeReporter();
  return { reporter, events: new LockEvents(reporter) };
}

describe('lock events', () => {
  it('reach every listener of their name in the turn of the event, and no other listener', () => {
    const { events } = setUp();
    const seen: unknown[] = [];
    const listen = (event: unknown) => seen.push(event);
    events.on('skipped', listen).on('skipped', (event) => seen.push(event.reason));
    events.on('renewed', listen);
    events.emit('skipped', () => EVENT);
    expect(seen).toEqual([EVENT, 'busy']);
  });

  it('call a listener once that was added twice, and not after off', () => {
    const { events } = setUp();
    let calls = 0;
    const listen = () => void (calls += 1);
    events.on('skipped', listen).on('skipped', listen);
    events.emit('skipped', () => EVENT);
    expect(calls).toBe(1);
    events.off('skipped', listen).off('skipped', listen);
    events.emit('skipped', () => EVENT);
    expect(calls).toBe(1);
  });

  it('allow a listener to be removed while they are emitted', () => {
    const { events } = setUp();
    const seen: string[] = [];
    const once = () => {
      seen.push('once');
      events.off('skipped', once);
    };
    events.on('skipped', once).on('skipped', () => seen.push('always'));
    for (let i = 0; i < 2; i += 1) events.emit('skipped', () => EVENT);
    expect(seen).toEqual(['once', 'always', 'always']);
  });

  it.each([undefined, null, 'log', {}])('refuse %j as a listener, which would hear nothing', (listener) => {
    const { events } = setUp();
    expect(() => events.on('lost', listener as never)).toThrow(LockConfigurationError);
    expect(() => events.on('lost', listener as never)).toThrow(/^Expected `listener` to be a function, got /);
    expect(events.isHeard('lost')).toBe(false);
  });

  it('refuse a listener for a name that no event has', () => {
    const { events } = setUp();
    const expected = /^Expected `event` to be one of acquired, .*demoted, got `aquired` \(string\)\.$/;
    expect(() => events.on('aquired' as never, () => undefined)).toThrow(expected);
    expect(() => events.off('toString' as never, () => undefined)).toThrow(LockConfigurationError);
  });

  it('are not created without listeners, or after the last one is removed', () => {
    const { events } = setUp();
    const make = () => {
      throw new Error('made');
    };
    const listen = () => undefined;
    events.emit('skipped', make);
    events.on('skipped', listen).on('renewed', listen).off('skipped', listen);
    events.emit('skipped', make);
    expect(() => events.emit('renewed', make)).toThrow('made');
  });

  it.each(EVENT_NAMES)('are published on the channel of %s, the same object to all', (name) => {
    const { events } = setUp();
    const [published, listened]: unknown[][] = [[], []];
    const onMessage = (message: unknown, from: string | symbol) => void published!.push([from, message]);
    const channel = `nestjs-redis-lock:${name}`;
    const emit = (one: LockEventName) => events.emit(one, () => ({ ...EVENT, one }) as never);
    subscribe(channel, onMessage);
    try {
      emit(name);
      events.on(name, (event) => void listened!.push(event)).on(name, (event) => void listened!.push(event));
      for (const one of EVENT_NAMES) emit(one);
    } finally {
      unsubscribe(channel, onMessage);
    }
    emit(name);
    const message = [channel, { ...EVENT, one: name }];
    expect([published, listened!.length]).toEqual([[message, message], 4]);
    const [, [, event]] = published as [unknown, [string, unknown]];
    expect(listened!.map((one) => one === event)).toEqual([true, true, false, false]);
  });
});

describe('listeners that throw at each event', () => {
  it('are logged a few times, and then counted, also before the next line after a blocked event loop', async () => {
    const { locker, under, reporter, clock } = startLocker();
    locker.events.on('acquired', () => {
      throw new Error('broken');
    });
    for (let i = 0; i < 30; i += 1) await under('k', () => undefined);
    expect(reporter.lines).toHaveLength(10);
    await clock.advance(10_000);
    expect(reporter.lines.slice(10)).toEqual(['error Within 10 s, 20 more listeners threw.']);
    for (let i = 0; i < 12; i += 1) await under('k', () => undefined);
    clock.jump(60_000);
    await under('k', () => undefined);
    expect(reporter.lines.slice(-2)).toEqual(['error Within 10 s, 2 more listeners threw.', reporter.lines[0]]);
  });
});

describe('foreign code', () => {
  it('may return an object with its own `then`, which is not read', () => {
    const { events } = setUp();
    const looks: unknown[] = [];
    const query = new Proxy({}, { get: (_target, name) => looks.push(name) });
    events.on('skipped', () => query as never);
    events.emit('skipped', () => EVENT);
    expect(looks).toEqual([]);
  });

  it('may throw a value without a text, or with an odd message', () => {
    expect(messageOf(Object.create(null))).toBe('a value of type object that has no text');
    expect(messageOf(Object.assign(new Error(), { message: 7 }))).toBe('7');
    expect(messageOf(Symbol('thrown'))).toBe('Symbol(thrown)');
  });
});

const LABEL = { where: 'Orders.charge', template: 'order:<0>' };
const LABELLED = { key: 'k', keys: ['k'], mode: 'write', ...LABEL };

/** A locker, and the events that it emits, with their names. */
function startTold() {
  const started = startLocker();
  const { store, locker } = started;
  const seen: [LockEventName, unknown][] = [];
  for (const name of EVENT_NAMES) locker.events.on(name, (event) => void seen.push([name, event]));
  const acquire = (options = {}) => locker.acquire(locker.request(['k'], lockOptions(options), LABEL));
  const held = () => ({ ...LABELLED, attempt: store.acquires[0]!.request.attempt, fencingToken: 100 });
  return { ...started, seen, acquire, held };
}

describe('the events of a locker', () => {
  it('report why an acquisition failed, even one that does not wait', async () => {
    const { clock, store, seen, acquire, locker } = startTold();
    const failed: unknown[] = [];
    const fail = async (options = {}) => {
      const outcome = outcomeOf(acquire(options));
      await clock.advance(1_000);
      failed.push(outcome.error);
    };
    store.onAcquire = () => busy();
    await fail({ waitMs: 0 });
    store.onAcquire = () => ({ outcome: 'refused', reason: 'claimed' });
    await fail();
    store.onAcquire = null;
    await fail({ waitMs: 1_000 });
    const signal = AbortSignal.abort(new Error('enough'));
    await fail({ signal });
    await locker.close(0);
    await fail();
    const [reasons, waits] = [
      ['busy', 'claimed', 'error', 'aborted', 'shutdown'],
      [0, 0, 1_000, 0, 0],
    ];
    const events = reasons.map((reason, i) => ({
      ...LABELLED,
      waitedMs: waits[i],
      waited: false,
      reason,
      error: failed[i],
    }));
    expect(seen).toEqual(events.map((event) => ['acquireFailed', event]));
    expect(failed[2]).toBeInstanceOf(LockStoreError);
  });

  it('report `aborted` only when the call rejects with the reason of that signal', async () => {
    const { store, seen, acquire } = startTold();
    const abort = new AbortController();
    store.onAcquire = () => {
      abort.abort(new Error('too late'));
      return { outcome: 'refused', reason: 'upgrade' };
    };
    await expect(acquire({ signal: abort.signal })).rejects.toThrow('too late');
    expect(seen).toMatchObject([['acquireFailed', { reason: 'aborted', error: abort.signal.reason as unknown }]]);
  });

  it.each([
    ['once, with its reason and error, and no release after it', 3_000, 'expired'],
    ['that only the release finds', 0, 'taken'],
  ])('report a loss %s', async (_what, heldMs, reason) => {
    const { clock, store, seen, acquire, held } = startTold();
    const lock = await acquire({ renew: false });
    await clock.advance(heldMs);
    store.onRelease = () => ({ outcome: 'expired', holds: 0, lastToken: 101 });
    await lock.release();
    expect(seen.map(([name]) => name)).toEqual(['acquired', 'lost']);
    expect(seen[1]![1]).toEqual({ ...held(), heldMs: expect.any(Number), reason, error: lock.lost, earlier: [] });
  });

  it('report each renewal, and each one without an answer', async () => {
    const { clock, store, seen, acquire, held } = startTold();
    const [cause, renewing] = [new Error('down'), store.onRenew];
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause }));
    await acquire();
    await clock.advance(1_000);
    store.onRenew = renewing;
    await clock.advance(200);
    expect(seen.slice(1)).toEqual([
      ['renewFailed', { ...held(), cause }],
      ['renewed', { ...held(), remainingMs: 3_000 }],
    ]);
  });

  it('report an unconfirmed release without a number of holds', async () => {
    const { clock, store, seen, acquire } = startTold();
    const lock = await acquire({ renew: false });
    store.onRelease = () => {
      throw new Error('down');
    };
    void lock.release();
    await clock.advance(8_000);
    expect(seen.at(-1)).toEqual(['released', expect.objectContaining({ holds: undefined })]);
  });

  it('report a nested call as reentered, with the time waited for its sibling', async () => {
    const { clock, seen, under } = startTold();
    await under('k', async () => {
      const first = under('k', () => clock.advance(300));
      await Promise.all([first, under('k', () => undefined)]);
    });
    const nested = { key: 'k', keys: ['k'], mode: 'write', where: '', template: undefined };
    expect(seen.map(([name]) => name)).toEqual(['acquired', 'reentered', 'reentered', 'released']);
    expect([seen[1]![1], seen[2]![1]]).toEqual([
      { ...nested, waitedMs: 0 },
      { ...nested, waitedMs: 300 },
    ]);
  });
});

describe('a listener of `waiting` that aborts the wait', () => {
  it('leaves no timer and no place in the queue', async () => {
    const { clock, store, locker, enter } = startLocker();
    const [controller, reason] = [new AbortController(), new Error('not now')];
    locker.events.on('waiting', () => controller.abort(reason));
    store.onAcquire = () => busy({ ahead: 2 });
    const outcome = outcomeOf(enter('k', { signal: controller.signal }));
    await settled();
    expect([outcome.error, store.givenBack, locker.live]).toEqual([reason, ['k'], NOTHING]);
    await clock.advance(60_000);
    expect([store.asked, clock.timers]).toEqual([['k'], 0]);
  });
});

describe('a listener of renewals that releases the lock', () => {
  it.each(['renewed', 'renewFailed'] as const)('leaves no timer at `%s` of an extension', async (name) => {
    const { store, locker, enter } = startLocker();
    if (name === 'renewFailed') store.onRenew = () => [{ outcome: 'unknown', cause: new Error('down') }];
    const lock = await enter('k');
    locker.events.on(name, () => void lock.release());
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    await settled();
    expect([store.givenBack, locker.live]).toEqual([['k'], NOTHING]);
  });
});
