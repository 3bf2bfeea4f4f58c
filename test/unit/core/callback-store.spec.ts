import { AsyncLocalStorage } from 'node:async_hooks';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type AcquireOutcome, type CallbackStore, type Outcome } from '../../../lib/core/store/callback-store.js';
import { type AcquireRequest, type ReleaseReply, type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { lockOptions, startLocker } from '../../support/core/core-parts.js';
import { FakeStore, granted, released } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

/** A store that calls back, in the async context of whoever answers. */
class CallingStore extends FakeStore implements CallbackStore {
  readonly acquiring: AcquireOutcome[] = [];
  readonly releasing: Outcome<ReleaseReply>[] = [];
  /** What it throws, or rejects at once with. */
  thrown: Error | null = null;
  refusal: Error | null = null;

  startAcquire(_request: AcquireRequest, _timeoutMs: number, outcome: AcquireOutcome): void {
    this.#start(outcome, this.acquiring);
  }

  startRelease(_request: ReleaseRequest, _timeoutMs: number, outcome: Outcome<ReleaseReply>): void {
    this.#start(outcome, this.releasing);
  }

  #start<O extends Outcome<never>>(outcome: O, started: O[]): void {
    if (this.thrown) throw this.thrown;
    started.push(outcome);
    if (this.refusal) outcome.reject(this.refusal);
  }
}

const caller = new AsyncLocalStorage<string>();
const down = () => new LockStoreError('down', { retryable: false });

function setUp() {
  const store = new CallingStore('client', true);
  const started = startLocker({ store });
  const acquire = (waitMs = 2_000) =>
    outcomeOf(started.locker.acquire(started.locker.request(['k'], lockOptions({ waitMs }))));
  return { ...started, store, acquire };
}

describe('a store that calls back', () => {
  it('gets no other acquires and releases while nobody listens', async () => {
    const { store, locker, enter } = setUp();
    const entering = enter('k');
    store.acquiring[0]!.resolve(granted(3_000, 7));
    const lock = await entering;
    const releasing = lock.release();
    store.releasing[0]!.resolve(released());
    expect([lock.fencingToken, await releasing]).toEqual([7, true]);
    expect([store.acquires, store.releases]).toEqual([[], []]);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it.each(['acquired', 'waiting', 'acquireFailed', 'timedOut'] as const)(
    'is asked for a promise while somebody listens to `%s`, who hears of it in the context of the caller',
    async (name) => {
      const { store, locker, enter } = setUp();
      locker.events.on(name, () => undefined);
      const heard: unknown[] = [];
      locker.events.on('acquired', () => heard.push(caller.getStore()));
      const lock = await caller.run('a caller', () => enter('k'));
      expect([store.acquiring, store.acquires.length, heard]).toEqual([[], 1, ['a caller']]);
      const releasing = lock.release();
      store.releasing[0]!.resolve(released());
      await releasing;
    },
  );

  it('is asked for the promise of a release while somebody listens to `released`', async () => {
    const { store, locker, enter } = setUp();
    const heard: unknown[] = [];
    locker.events.on('released', () => heard.push(caller.getStore()));
    const entering = enter('k');
    store.acquiring[0]!.resolve(granted(3_000, 7));
    const lock = await entering;
    await caller.run('a caller', () => lock.release());
    expect([store.releasing, store.releases.length, heard]).toEqual([[], 1, ['a caller']]);
  });

  it('tells a listener that came during a call of it in the context of whoever answers, and its caller goes on in its own', async () => {
    const { store, locker, enter } = setUp();
    const seen: unknown[] = [];
    const entering = caller.run('a caller', () => enter('k').then(() => seen.push(caller.getStore())));
    locker.events.on('acquired', () => seen.push(caller.getStore()));
    caller.run('whoever answers', () => store.acquiring[0]!.resolve(granted(3_000, 7)));
    await entering;
    await caller.run('the next caller', () => enter('other'));
    expect(seen).toEqual(['whoever answers', 'a caller', 'the next caller']);
  });

  it.each(['thrown', 'refusal'] as const)(
    'may fail at once: the call rejects, and the next one is not kept waiting (%s)',
    async (how) => {
      const { store, locker, acquire, enter } = setUp();
      store[how] = down();
      const outcomes = [acquire(), acquire()];
      await expect(enter('other')).rejects.toThrow('down');
      expect(outcomes.map(({ error }) => error)).toEqual([store[how], store[how]]);
      store[how] = null;
      const entering = enter('k');
      store.acquiring.at(-1)!.resolve(granted(3_000, 8));
      const lock = await entering;
      store[how] = down();
      await expect(lock.release()).resolves.toBe(true);
      expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
    },
  );

  it('gets back what it grants when it has rejected the command', async () => {
    const { store, clock, acquire } = setUp();
    const outcome = acquire(1_000);
    store.acquiring[0]!.reject(new LockStoreError('no answer', { wasSent: true }));
    await clock.advance(1_000);
    expect(outcome.error).toBeInstanceOf(LockStoreError);
    const before = store.releasing.length;
    store.acquiring[0]!.onLate(granted(3_000, 7));
    expect(store.releasing.length).toBe(before + 1);
  });
});
