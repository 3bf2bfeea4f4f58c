import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockLostError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { heldStreamLock } from '../../../../lib/interceptor/streams/stream-lock.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { released } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection } from '../../../support/waiting/rejection.js';

const NO_WAIT = { awaitRelease: false };
const GONE = { outcome: 'expired', holds: 0, lastToken: 100 } as const;

/** A locker whose releases the test answers. */
function start() {
  const parts = startLocker();
  const { store, locker } = parts;
  store.onRelease = null;
  const [losses, contexts, context] = [[] as LockLostError[], [] as unknown[], new AsyncLocalStorage<string>()];
  locker.events.on('lost', ({ error }) => {
    losses.push(error);
    contexts.push(context.getStore());
  });
  const answerAll = async () => {
    for (const release of store.releases) release.reply(released());
    await settled();
  };
  const service = new RedisLockService(locker, store, resolveModuleOptions(NO_WAIT));
  return { ...parts, losses, context, contexts, answerAll, service };
}

describe('a call with `awaitRelease: false`', () => {
  it('returns when its work has, and its release goes on, keeps the process alive and is waited for by a shutdown', async () => {
    const { clock, locker, under, store, answerAll } = start();
    const ended: string[] = [];
    locker.events.on('released', ({ key }) => ended.push(key));
    expect(await under('k', () => 'done', NO_WAIT)).toBe('done');
    const closing = outcomeOf(locker.close(1_000));
    await settled();
    expect([closing, store.givenBack, ended, clock.keptAlive]).toEqual([{}, ['k'], [], 1]);
    expect(locker.live).toMatchObject({ locks: 0, releasing: 1 });
    await answerAll();
    expect([closing, ended, clock.keptAlive, locker.live.releasing]).toEqual([{ value: undefined }, ['k'], 0, 0]);
  });

  it('throws when its work has', async () => {
    const { store, under } = start();
    await expect(under('k', () => Promise.reject(new Error('business')), NO_WAIT)).rejects.toThrow('business');
    expect(store.givenBack).toEqual(['k']);
  });

  it('is the default of a module that says so, but each call may say otherwise, and a handle awaits its `release()`', async () => {
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

  it('fails when the lock was lost while the work ran, as far as the process knows', async () => {
    const { clock, store, under } = start();
    const revoke = () => store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
    expect(await rejection(under('k', revoke, NO_WAIT))).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    const expired = under('k', () => clock.jump(60_000), NO_WAIT);
    expect(await rejection(expired)).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
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

  it('does not learn of a loss that only its release finds: the event and the log report it, outside of its context', async () => {
    const { store, reporter, under, losses, context, contexts } = start();
    let signal!: AbortSignal;
    await context.run('the caller', () => under('k', ({ signal: ofLock }) => void (signal = ofLock), NO_WAIT));
    expect([losses, signal.aborted]).toEqual([[], false]);
    store.releases[0]!.reply({ ...GONE, outcome: 'revoked' });
    await settled();
    expect(losses).toMatchObject([{ code: 'LOCK_LOST', key: 'k', reason: 'revoked' }]);
    expect([signal.reason, contexts]).toEqual([losses[0], [undefined]]);
    expect(reporter.lines).toEqual([expect.stringContaining('error The lock "k" (write, fencing token 100) was lost')]);
  });

  it.each([true, false])('has its release tried again until it is confirmed (%s), or until its lease has ended', async (isBack) => {
    const { clock, store, reporter, locker, under, losses } = start();
    const down = () => {
      throw new LockStoreError('down');
    };
    store.onRelease = down;
    expect(await under('k', () => 'done', NO_WAIT)).toBe('done');
    await settled();
    if (isBack) store.onRelease = () => released();
    await clock.advance(10_000);
    expect([locker.live.releasing, clock.keptAlive, losses]).toEqual([0, 0, []]);
    const line = expect.stringContaining('warn The lock "k" could not be released');
    expect([isBack ? store.releases.length : 2, reporter.lines]).toEqual([2, isBack ? [] : [line]]);
  }); // prettier-ignore
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

  it('returns although a nested call without an `await` is still inside, which then releases the lock', async () => {
    const { store, under } = start();
    const { opened, open } = gate();
    await under('k', () => void under('k', () => opened, NO_WAIT), NO_WAIT);
    expect(store.givenBack).toEqual([]);
    open();
    await settled();
    expect(store.givenBack).toEqual(['k']);
  });

  it.each([[['a', 'b']], [['a+b']]])(
    'sends the release of each key before it returns, of groups %j',
    async (groups) => {
      const { store, under } = start();
      store.groups = () => groups.map((group) => group.split('+'));
      expect(await under(['a', 'b'], () => 'done', NO_WAIT)).toBe('done');
      expect(store.givenBack).toEqual(['a', 'b']);
    },
  );

  it('releases keys of its own and leaves those of the outer call', async () => {
    const { store, under } = start();
    const outer = async () => {
      expect(await under(['a', 'b'], () => 'inside', NO_WAIT)).toBe('inside');
      expect(store.givenBack).toEqual(['b']);
    };
    await under('a', outer, NO_WAIT);
    expect(store.givenBack).toEqual(['b', 'a']);
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
