import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type LockEventName, LockEvents } from '../../../../lib/core/lock.events.js';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { messageOf } from '../../../../lib/core/reporter.js';
import { EVENT_NAMES } from '../../../support/apps/event-names.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { settled } from '../../../support/core/fake-clock.js';

const LOCK = { key: 'k', keys: ['k'], template: undefined, mode: 'write', where: '', note: undefined } as const;
const EVENT = { ...LOCK, reason: 'busy' } as const;

function setUp() {
  const reporter = new FakeReporter();
  return { reporter, events: new LockEvents(reporter) };
}

describe('lock events', () => {
  it('reach every listener of their name in the turn of the event, and no other', () => {
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

  it('log the error of a listener, without an effect on others or the caller', () => {
    const { events, reporter } = setUp();
    const seen: string[] = [];
    events.on('skipped', () => {
      throw new Error('broken');
    });
    events.on('skipped', () => void seen.push('second'));
    events.emit('skipped', () => EVENT);
    expect(seen).toEqual(['second']);
    expect(reporter.lines).toEqual(['error A listener of the lock event "skipped" threw: broken']);
  });

  it('log the rejection of an async listener', async () => {
    const { events, reporter } = setUp();
    events.on('skipped', () => Promise.reject(new Error('broken later')));
    events.emit('skipped', () => EVENT);
    await settled();
    expect(reporter.lines).toEqual(['error A listener of the lock event "skipped" threw: broken later']);
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

  it('may throw what has no text, or an odd message', () => {
    expect(messageOf(Object.create(null))).toBe('a value of type object that has no text');
    expect(messageOf(Object.assign(new Error(), { message: 7 }))).toBe('7');
    expect(messageOf(Symbol('thrown'))).toBe('Symbol(thrown)');
  });
});
