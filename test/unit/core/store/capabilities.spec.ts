import { Locker } from '../../../../lib/core/acquire/locker.js';
import { LockHistory } from '../../../../lib/core/history/lock-history.js';
import { OperatorCalls } from '../../../../lib/core/operator-calls.js';
import { systemRuntime } from '../../../../lib/core/runtime.js';
import { type LockStore } from '../../../../lib/core/store/lock-store.js';
import { lockOptions, startLocker, transferred } from '../../../support/core/core-parts.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { rejection } from '../../../support/waiting/rejection.js';
import { CLAIM } from '../acquire/start-calls.js';

/** A locker on a store with only the required methods. */
function startBare() {
  const { clock, store: full } = startLocker();
  const { clientId } = full;
  const store: LockStore = {
    clientId,
    listen: (listener) => full.listen(listener),
    acquire: (...asked) => full.acquire(...asked),
    renew: (requests) => full.renew(requests),
    release: (...asked) => full.release(...asked),
    close: () => full.close(),
  };
  const locker = new Locker(systemRuntime(clock), store, new FakeReporter(), 'host:1');
  const acquire = async (keys: readonly string[], options = {}, claim?: typeof CLAIM) =>
    locker.acquire(locker.request(keys, lockOptions(options), undefined, claim));
  const operator = new OperatorCalls(locker, store);
  const history = new LockHistory(locker, store, null);
  return { store: full, locker, acquire, operator, history };
}

describe('a store with the five methods of `LockStore` only', () => {
  it('is asked for one key at a time, in an order that is the same for every caller', async () => {
    const { store, acquire } = startBare();
    const lock = await acquire(['b', 'a', 'c']);
    expect([store.asked, lock.fencingTokens, await lock.release()]).toEqual([['a', 'b', 'c'], [101, 100, 102], true]);
  });

  it('has keys of 1 to 1,024 bytes', async () => {
    const { acquire } = startBare();
    expect([await rejection(acquire([''])), await rejection(acquire(['x'.repeat(1_025)]))]).toMatchObject([
      { code: 'LOCK_KEY' },
      { code: 'LOCK_KEY' },
    ]);
  });

  it('lets a hold be downgraded, which is a renewal', async () => {
    const lock = await startBare().acquire(['k']);
    await lock.downgrade();
    expect([lock.mode, lock.held]).toEqual(['read', true]);
  });

  const HOLD = transferred({ keyPrefix: '', holds: [], leaseMs: 3_000 });
  it.each<[string, (bare: ReturnType<typeof startBare>) => unknown]>([
    ['`permits`', ({ acquire }) => acquire(['k'], { mode: 'read', permits: 3 })],
    ['`permits`', ({ acquire }) => acquire(['k'], { mode: 'read', take: 2 })],
    ['`oncePer`', ({ acquire }) => acquire(['k'], {}, CLAIM)],
    ['`transfer()`', async ({ acquire }) => (await acquire(['k'])).transferHandle()],
    ['`transfer()`', async ({ acquire }) => (await acquire(['k', 'l'])).transferHandle()],
    ['`adopt()`', ({ locker }) => locker.adopt({ ...HOLD, awaitRelease: true })],
    ['`waitUntilFree()`', async ({ locker }) => locker.waitUntilFree(['k'], { waitMs: 0, signal: undefined })],
    ['`inspect()`', ({ operator }) => operator.inspect('k')],
    ['`isLocked()`', ({ operator }) => operator.isLocked('k')],
    ['`list()`', async ({ operator }) => operator.list({})[Symbol.asyncIterator]().next()],
    ['`forceRelease()`', ({ operator }) => operator.forceRelease('k', {})],
    ['`setPermits()`', ({ operator }) => operator.setPermits('k', 1)],
    ['`lastRun()`', ({ operator }) => operator.lastRun('k', undefined)],
    ['`history()`', ({ history }) => history.read({})],
  ])('refuses what it cannot do, and keeps what is held: %s', async (what, call) => {
    const bare = startBare();
    const error = await rejection((async () => call(bare))());
    expect(error).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining(`${what} needs a store`),
    });
    for (const lock of bare.locker.holds) expect(lock.held).toBe(true);
    expect(bare.store.acquires.length).toBe(bare.locker.holds.size);
  });
});
