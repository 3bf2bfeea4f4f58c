import { Iteration } from '../../../../lib/core/reentry/iteration.js';
import { LockWaitTimeoutError } from '../../../../lib/core/lock.errors.js';
import { type LockOptions } from '../../../../lib/core/lock.options.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

/** An iteration that holds `k`, which the store then refuses; `consume` reads one value and enters a lock in its loop. */
async function startIteration(options: Partial<LockOptions> = {}) {
  const started = startLocker();
  const { enter, store } = started;
  const lock = await enter('k', options);
  store.onAcquire = ({ keys, leaseMs }) => (keys.includes('k') ? busy() : granted(leaseMs, 200));
  const iteration = new Iteration(lock);
  const give = (value: number): IteratorYieldResult<number> => {
    iteration.onNext();
    iteration.onNextSettled();
    return iteration.resultOf(value);
  };
  const consume = async (how: Partial<LockOptions> = {}, by = enter) => {
    const result = await Promise.resolve(give(1));
    expect(result.value).toBe(1);
    return { call: outcomeOf(by('k', { waitMs: 5_000, ...how })) };
  };
  return { ...started, lock, iteration, give, consume };
}

describe('the consumer of an iteration', () => {
  it('gets plain results', async () => {
    const { iteration } = await startIteration();
    const result = iteration.resultOf('row');
    expect(result).toEqual({ done: false, value: 'row' });
    expect([Object.keys(result), { ...result }]).toEqual([['done', 'value'], { done: false, value: 'row' }]);
  });

  it.each<[string, (started: Awaited<ReturnType<typeof startIteration>>) => void]>([
    ['has asked on', ({ iteration }) => iteration.onNext()],
    ['was given another value', ({ give }) => void give(2)],
    ['has lost its lock', ({ lock }) => lock.lose('expired')],
  ])('may wait when the iteration %s meanwhile', async (_what, happens) => {
    const started = await startIteration();
    const { call } = await started.consume();
    await settled();
    happens(started);
    await started.clock.advance(4_999);
    expect(call).toEqual({});
    await started.clock.advance(1);
    expect(call.error).toBeInstanceOf(LockWaitTimeoutError);
  });

  it.each<[string, Partial<LockOptions>, Partial<LockOptions>, boolean]>([
    ['the next value is already pending for another consumer', {}, {}, true],
    ['it reads beside an iteration that reads', { mode: 'read' }, { mode: 'read' }, false],
    ['it has the owner of the iteration', { owner: 'me' }, { owner: 'me' }, false],
  ])('may wait when %s', async (_what, held, options, isPending) => {
    const { clock, consume, iteration } = await startIteration(held);
    if (isPending) iteration.onNext();
    const { call } = await consume(options);
    await clock.advance(4_999);
    expect(call).toEqual({});
    if (isPending) iteration.onNextSettled();
  });

  it('may wait for a lock of another module, and take another key', async () => {
    const { clock, consume, enter } = await startIteration();
    const other = startLocker({ clock });
    other.store.onAcquire = () => busy();
    const { call } = await consume({}, other.enter);
    expect(await enter('other')).toMatchObject({ key: 'other' });
    await clock.advance(4_000);
    expect(call).toEqual({});
  });
});
