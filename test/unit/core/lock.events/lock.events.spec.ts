import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type LockEventMap, type LockEventName, LockEvents } from '../../../../lib/core/lock.events.js';
import { LockConfigurationError, LockLostError } from '../../../../lib/core/lock.errors.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { settled } from '../../../support/core/fake-clock.js';

const EVENT = {
  key: 'k',
  keys: ['k'],
  template: undefined,
  mode: 'write',
  where: '',
  note: undefined,
  reason: 'busy',
} as const;
const LOCK = { key: 'k', keys: ['k'], template: undefined, mode: 'write', where: '', note: undefined } as const;
const HELD = { ...LOCK, attempt: 'client.1', fencingToken: 7 };
const LOSS = new LockLostError('gone', { key: 'k', reason: 'expired' });

const SAMPLES: { readonly [Name in LockEventName]: LockEventMap[Name] } = {
  acquired: { ...HELD, waitedMs: 1, waited: false, local: false, serverTimeMs: 2 },
  acquireFailed: { ...LOCK, waitedMs: 1, waited: true, reason: 'error', error: new Error('down') },
  waiting: { ...LOCK, ahead: 1, holder: 'host:1' },
  released: { ...HELD, heldMs: 1, holds: 0 },
  transferred: { ...HELD, heldMs: 1 },
  adopted: { ...HELD, from: 'other.1' },
  renewed: { ...HELD, remainingMs: 1 },
  renewFailed: { ...HELD, cause: new Error('down') },
  lost: { ...HELD, heldMs: 1, reason: 'expired', error: LOSS },
  skipped: EVENT,
  forced: { ...LOCK, by: 'ann' },
  timedOut: { ...LOCK, waitedMs: 1, holder: 'host:1' },
  reentered: { ...LOCK, waitedMs: 1 },
  elected: HELD,
  demoted: { ...HELD, heldMs: 1, reason: 'resigned' },
};

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

  it.each(Object.keys(SAMPLES) as LockEventName[])(
    'are published on the channel of %s, the same object to all',
    (name) => {
      const { events } = setUp();
      const [published, listened]: unknown[][] = [[], []];
      const sample = () => ({ ...SAMPLES[name] }) as never;
      const onMessage = (message: unknown, from: string | symbol) => void published!.push([from, message]);
      const channel = `nestjs-redis-lock:${name}`;
      subscribe(channel, onMessage);
      try {
        events.emit(name, sample);
        events.on(name, (event) => void listened!.push(event)).on(name, (event) => void listened!.push(event));
        for (const other of Object.keys(SAMPLES) as LockEventName[]) events.emit(other, sample);
      } finally {
        unsubscribe(channel, onMessage);
      }
      events.emit(name, sample);
      expect(published).toEqual([[channel, SAMPLES[name]], [channel, SAMPLES[name]]]); // prettier-ignore
      expect(listened).toHaveLength(4);
      const [, [, event]] = published as [unknown, [string, unknown]];
      expect([listened![0] === event, listened![1] === event, listened![2] === event]).toEqual([true, true, false]);
    },
  );
});
