import { AsyncLocalStorage } from 'node:async_hooks';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { type AcquireOutcome, type CallbackStore, type Outcome } from '../../../lib/core/store/callback-store.js';
import { type AcquireRequest, type ReleaseReply, type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { lockOptions, NOTHING, startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';
import { FakeStore, granted, released } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

/** A store that calls back, in the async context of the code that answers. */
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
function setUp() {
  const store = new CallingStore('client', true);
  const started = startLocker({ store });
  const acquire = (waitMs = 2_000) =>
    outcomeOf(started.locker.acquire(started.locker.request(['k'], lockOptions({ waitMs }))));
  return { ...started, store, acquire };
}

describe('a store that calls back', () => {
  it('gets no other acquires and releases without a listener, and its caller goes on in its own context', async () => {
    const { store, locker, enter } = setUp();
    const entering = caller.run('a caller', () => enter('k').then((lock) => [lock, caller.getStore()] as const));
    caller.run('what answers', () => store.acquiring[0]!.resolve(granted(3_000, 7)));
    const [lock, context] = await entering;
    const releasing = lock.release();
    store.releasing[0]!.resolve(released());
    expect([lock.fencingToken, context, await releasing]).toEqual([7, 'a caller', true]);
    expect([store.acquires, store.releases, locker.live]).toEqual([[], [], NOTHING]);
  });

  it.each(['acquired', 'waiting', 'acquireFailed', 'timedOut', 'released'] as const)(
    'is asked for a promise while `%s` has a listener, so that it hears of it in the context of the caller',
    async (name) => {
      const { store, locker, enter } = setUp();
      const heard: unknown[] = [];
      locker.events.on(name, () => heard.push(caller.getStore()));
      const entering = caller.run('a caller', () => enter('k'));
      store.acquiring[0]?.resolve(granted(3_000, 7));
      const releasing = caller.run('a caller', () => entering.then((lock) => lock.release()));
      await settled();
      store.releasing[0]?.resolve(released());
      await releasing;
      const ofRelease = name === 'released';
      expect([store.acquires.length, store.releases.length]).toEqual(ofRelease ? [0, 1] : [1, 0]);
      expect(heard).toEqual(name === 'acquired' || ofRelease ? ['a caller'] : []);
    },
  );

  it.each(['thrown', 'refusal'] as const)('may fail at once: the call rejects, and the next one goes on (%s)', async (how) => {
    const { store, locker, acquire, enter } = setUp();
    store[how] = new LockStoreError('down', { retryable: false });
    const outcomes = [acquire(), acquire()];
    await expect(enter('other')).rejects.toThrow('down');
    expect(outcomes.map(({ error }) => error)).toEqual([store[how], store[how]]);
    store[how] = null;
    const entering = enter('k');
    store.acquiring.at(-1)!.resolve(granted(3_000, 8));
    const lock = await entering;
    store[how] = new LockStoreError('down', { retryable: false });
    expect([await lock.release(), locker.live]).toEqual([true, NOTHING]);
  }); // prettier-ignore
});
