import { AsyncLocalStorage } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { NO_LABEL } from '../../../lib/core/lock.events.js';
import { LockBusyError, LockKeyError, LockWaitTimeoutError } from '../../../lib/core/lock.errors.js';
import { type LockedCall } from '../../../lib/interceptor/locked-call.js';
import { SharedCalls } from '../../../lib/interceptor/shared-calls.js';
import { settled } from '../../support/core/fake-clock.js';
import { NOTHING, startLocker } from '../../support/core/core-parts.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

const WAIT_MS = 10_000;
class Prices {}
class OtherPrices extends Prices {}

/** A locked method with its first argument as the key. */
const methodOf = (options: LockedCall['options'] = {}): LockedCall => ({
  where: 'Prices.load',
  name: 'load',
  method: methodOf,
  kind: 'promise',
  template: 'price:<0>',
  keyOf: (_self, args) => args[0] as string,
  options: { ifBusy: 'share', mode: 'write', ...options },
  lock: {},
  perCall: [],
  isSame: true,
  label: NO_LABEL,
});

/** The shared calls of a module, and the runs that they have started, each of which the test ends. */
function startCalls({ waitMs = WAIT_MS } = {}) {
  const { clock, locker, under } = startLocker();
  const shared = new SharedCalls(locker, waitMs);
  const events: string[] = [];
  locker.events.on('skipped', ({ key, reason, where }) => events.push(`${where} ${key} ${reason}`));
  locker.events.on('timedOut', ({ waitedMs }) => events.push(`timed out after ${waitedMs}`));
  const runs: { resolve(result: unknown): void; reject(error: unknown): void; enter(): void }[] = [];
  const start = (_key: unknown, onInside: () => void): Promise<unknown> =>
    new Promise((resolve, reject) => {
      runs.push({ resolve, reject, enter: onInside });
    });
  const load = methodOf();
  const call = (key: unknown = 'a', method = load, self: object = new Prices()): Promise<unknown> =>
    shared.run(method, self, [key], start);
  return { clock, locker, under, shared, events, runs, load, call };
}

describe('a call that shares', () => {
  it('rejects when the module closes, and leaves no timer', async () => {
    const { locker, runs, call } = startCalls();
    const first = outcomeOf(call());
    const sharing = outcomeOf(call());
    runs[0]!.enter();
    await locker.close(0);
    await settled();
    expect(sharing.error).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    const late = outcomeOf(call());
    await settled();
    expect([late.error, locker.live.timers]).toMatchObject([{ code: 'LOCK_SHUTDOWN' }, 0]);
    runs[0]!.resolve('done');
    await settled();
    expect(first.value).toBe('done');
  });

  it('shares nothing with another key, method, class or order of keys', async () => {
    const { call, runs, events } = startCalls();
    const calls = [
      call('a'),
      call('b'),
      call('a', methodOf()),
      call('a', methodOf({ mode: 'read' })),
      call(['a', 'b']),
      call(['b', 'a']),
      call('a,b'),
      call('a", "b'),
    ];
    const load = methodOf();
    calls.push(call('c', load, new Prices()), call('c', load, new OtherPrices()));
    expect([runs.length, events]).toEqual([calls.length, []]);
    for (const [i, run] of runs.entries()) run.resolve(i);
    expect(await Promise.all(calls)).toEqual(calls.map((_, i) => i));
    expect(await Promise.all([call('a'), settled().then(() => runs.at(-1)!.resolve('next'))])).toEqual([
      'next',
      undefined,
    ]);
  });

  it('has the limit of the one that runs while that one waits for the lock', async () => {
    const { clock, call, runs, events, locker } = startCalls();
    const [, second, third] = [call(), call(), call()].map((one) => outcomeOf(one));
    await clock.advance(WAIT_MS + 900);
    expect([second, third, locker.live]).toEqual([{}, {}, NOTHING]);
    runs[0]!.enter();
    await clock.advance(WAIT_MS - 1);
    expect([second, third]).toEqual([{}, {}]);
    await clock.advance(1);
    for (const { error } of [second!, third!]) expect(error).toBeInstanceOf(LockWaitTimeoutError);
    expect(events.slice(2)).toEqual([1, 2].map(() => `timed out after ${2 * WAIT_MS + 900}`));
  });

  it('has the waitMs of its options before that of the module', async () => {
    const { clock, call, runs } = startCalls();
    const method = methodOf({ waitMs: 50 });
    const endless = methodOf({ waitMs: Infinity });
    const outcomes = [method, method, endless, endless].map((one) => outcomeOf(call('a', one)));
    for (const run of runs) run.enter();
    await clock.advance(50);
    expect(outcomes[1]!.error).toBeInstanceOf(LockWaitTimeoutError);
    await clock.advance(10_000_000);
    expect([outcomes[0], outcomes[2], outcomes[3]]).toEqual([{}, {}, {}]);
  });

  it('does not wait when calls of the module do not', async () => {
    const { clock, call, runs, events } = startCalls({ waitMs: 0 });
    const outcomes = [call(), call()].map((one) => outcomeOf(one));
    runs[0]!.enter();
    await clock.advance(0);
    expect(outcomes[0]).toEqual({});
    expect(outcomes[1]!.error).toBeInstanceOf(LockBusyError);
    expect(events).toEqual(['Prices.load a shared']);
  });

  it('is ended by its signal, with its reason, and leaves no listener behind', async () => {
    const { call, runs, locker } = startCalls();
    const { signal, ...controller } = abortable();
    const method = methodOf({ signal });
    const [first, sharer] = [call('a', method), call('a', method)].map((one) => outcomeOf(one));
    const reason = new Error('enough');
    controller.abort(reason);
    await settled();
    // The signal of the first call ends its wait for the lock, in `start`.
    expect([first, sharer]).toEqual([{}, { error: reason }]);
    expect(outcomeOf(call('a', method))).toEqual({});
    await settled();
    runs[0]!.resolve('result');
    await settled();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(locker.live).toEqual(NOTHING);
  });

  it('continues, and emits its events, in its own async context', async () => {
    const { clock, call, runs, locker } = startCalls();
    const who = new AsyncLocalStorage<string>();
    const told: unknown[] = [];
    locker.events.on('skipped', () => told.push(['skipped', who.getStore()]));
    locker.events.on('timedOut', () => told.push(['timedOut', who.getStore()]));
    const as = (name: string, method?: LockedCall) =>
      who.run(name, async () => {
        await call('a', method).catch(() => undefined);
        told.push(['settled', who.getStore()]);
      });
    const short = methodOf({ waitMs: 5 });
    const shared = [as('first'), as('second')];
    runs[0]!.resolve('result');
    await Promise.all(shared);
    void as('holder', short);
    runs[1]!.enter();
    const late = as('late', short);
    await clock.advance(5);
    await late;
    expect(told).toEqual([
      ['skipped', 'second'],
      ['settled', 'first'],
      ['settled', 'second'],
      ['skipped', 'late'],
      ['timedOut', 'late'],
      ['settled', 'late'],
    ]);
  });
});

describe('a call that others would share', () => {
  it('leaves nothing behind when it fails before it runs', async () => {
    const { shared, load, call, runs } = startCalls();
    const fail = (): never => {
      throw new Error('at once');
    };
    expect(() => shared.run(load, new Prices(), ['a'], fail)).toThrow('at once');
    const outcome = outcomeOf(call());
    expect(runs).toHaveLength(1);
    runs[0]!.resolve('result');
    await settled();
    expect(outcome).toEqual({ value: 'result' });
  });

  it('needs a key', () => {
    const { call } = startCalls();
    for (const key of [null, 7, [], ['a', ''], {}]) expect(() => call(key)).toThrow(LockKeyError);
  });
});

/** A signal that the test aborts. */
function abortable() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason: Error) => controller.abort(reason) };
}
