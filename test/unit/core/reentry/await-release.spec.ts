import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { heldStreamLock } from '../../../../lib/interceptor/streams/stream-lock.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { released } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const NO_WAIT = { awaitRelease: false };
const GONE = { outcome: 'expired', holds: 0, lastToken: 100 } as const;

/** A locker whose releases the test answers. */
function start() {
  const parts = startLocker();
  const { store, locker } = parts;
  store.onRelease = null;
  const answerAll = async () => {
    for (const release of store.releases) release.reply(released());
    await settled();
  };
  const service = new RedisLockService(locker, store, resolveModuleOptions(NO_WAIT));
  return { ...parts, answerAll, service };
}

describe('a call with `awaitRelease: false`', () => {
  it('is the default of a module that sets it, each call may override it, and a handle awaits its `release()`', async () => {
    const { store, service, answerAll } = start();
    expect(await service.withLock('a', () => 'done')).toBe('done');
    const waiting = outcomeOf(service.withLock('b', { awaitRelease: true }, () => 'done'));
    await settled();
    const releasing = outcomeOf((await service.acquire('c', NO_WAIT)).release());
    await settled();
    expect([waiting, releasing, store.givenBack]).toEqual([{}, {}, ['a', 'b', 'c']]);
    await answerAll();
    expect([waiting, releasing]).toEqual([{ value: 'done' }, { value: true }]);
  });

  it('waits for all releases when the lease is not proven: the machine may have slept', async () => {
    const { clock, store, under } = start();
    const work = () => {
      clock.wallOffsetMs += 60_000;
      return 'value';
    };
    store.groups = (keys) => keys.map((key) => [key]);
    const calls = [['kept', 'too'], 'taken'].map((keys) => outcomeOf(under(keys, work, NO_WAIT)));
    await settled();
    expect(calls).toEqual([{}, {}]);
    for (const release of store.releases) {
      release.reply(release.request.key === 'taken' ? { ...GONE, lastToken: 200 } : released());
    }
    await settled();
    const lost = { error: { code: 'LOCK_LOST', reason: 'taken', result: 'value' } };
    expect(calls).toMatchObject([{ value: 'value' }, lost]);
  });
});

describe('`awaitRelease` of calls with more than one lock', () => {
  it('counts for the outermost call; a nested one only leaves', async () => {
    const { under, answerAll } = start();
    const nested = (awaitRelease: boolean) => () => under('k', () => 'inside', { awaitRelease });
    expect(await under('k', nested(true), NO_WAIT)).toBe('inside');
    const waiting = outcomeOf(under('k', nested(false)));
    await settled();
    expect(waiting).toEqual({});
    await answerAll();
    expect(waiting).toEqual({ value: 'inside' });
  });

  it('ends a stream at once, unless its lock was lost before', async () => {
    const { store, locker, enter } = start();
    const [kept, lost] = await Promise.all([enter('a', NO_WAIT), enter('b', NO_WAIT)]);
    await heldStreamLock(kept, locker, 1_000).end('done');
    expect(store.givenBack).toEqual(['a']);
    lost.lose('revoked');
    await expect(heldStreamLock(lost, locker, 1_000).end('done')).rejects.toMatchObject({ reason: 'revoked' });
  });
});
