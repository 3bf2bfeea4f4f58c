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
  parts.store.onRelease = null;
  const losses: LockLostError[] = [];
  parts.locker.events.on('lost', ({ error }) => losses.push(error));
  return { ...parts, losses };
}

describe('a call with `awaitRelease: false`', () => {
  it('returns when its work has, and its release goes on and keeps the process alive', async () => {
    const { clock, store, locker, under } = start();
    const ended: string[] = [];
    locker.events.on('released', ({ key }) => ended.push(key));
    expect(await under('k', () => 'done', NO_WAIT)).toBe('done');
    expect([store.givenBack, ended, clock.keptAlive]).toEqual([['k'], [], 1]);
    expect(locker.live).toMatchObject({ locks: 0, releasing: 1 });
    store.releases[0]!.reply(released());
    await settled();
    expect([ended, clock.keptAlive]).toEqual([['k'], 0]);
    expect(locker.live.releasing).toBe(0);
  });

  it('throws when its work has, and its release says that it failed', async () => {
    const { store, under } = start();
    const work = () => Promise.reject(new Error('business'));
    await expect(under('k', work, NO_WAIT)).rejects.toThrow('business');
    expect(store.givenBack).toEqual(['k']);
  });

  it('is the default of a module that says so, and each call may say otherwise', async () => {
    const { store, locker } = start();
    const locks = new RedisLockService(locker, store, resolveModuleOptions(NO_WAIT));
    expect(await locks.withLock('a', () => 'done')).toBe('done');
    const waiting = outcomeOf(locks.withLock('b', { awaitRelease: true }, () => 'done'));
    await settled();
    expect([waiting, store.givenBack]).toEqual([{}, ['a', 'b']]);
    for (const release of store.releases) release.reply(released());
    await settled();
    expect(waiting).toEqual({ value: 'done' });
  });

  it('does not shorten the wait of the holder of a handle, who awaits `release()`', async () => {
    const { store, locker } = start();
    const locks = new RedisLockService(locker, store, resolveModuleOptions(NO_WAIT));
    const lock = await locks.acquire('k', NO_WAIT);
    const releasing = outcomeOf(lock.release());
    await settled();
    expect(releasing).toEqual({});
    store.releases[0]!.reply(released());
    await settled();
    expect(releasing).toEqual({ value: true });
  });

  it('fails when the lock was lost while the work ran, as far as the process knows', async () => {
    const { clock, store, under } = start();
    const revoked = under(
      'k',
      () => store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' }),
      NO_WAIT,
    );
    expect(await rejection(revoked)).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    const expired = under('k', () => clock.jump(60_000), NO_WAIT);
    expect(await rejection(expired)).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it('waits for the release when the lease is not proven: the machine may have slept', async () => {
    const { clock, store, under } = start();
    const work = () => {
      clock.wallOffsetMs += 60_000;
      return 'value';
    };
    const [kept, taken] = [outcomeOf(under('kept', work, NO_WAIT)), outcomeOf(under('taken', work, NO_WAIT))];
    await settled();
    expect([kept, taken]).toEqual([{}, {}]);
    store.releases[0]!.reply(released());
    store.releases[1]!.reply({ ...GONE, lastToken: 200 });
    await settled();
    expect(kept).toEqual({ value: 'value' });
    expect(taken.error).toMatchObject({ code: 'LOCK_LOST', reason: 'taken', result: 'value' });
  });

  it('is not told of a loss that only its release finds: the event and the log tell it', async () => {
    const { store, reporter, under, losses } = start();
    let signal!: AbortSignal;
    expect(await under('k', ({ signal: ofLock }) => void (signal = ofLock), NO_WAIT)).toBeUndefined();
    expect([losses, signal.aborted]).toEqual([[], false]);
    store.releases[0]!.reply({ ...GONE, outcome: 'revoked' });
    await settled();
    expect(losses).toMatchObject([{ code: 'LOCK_LOST', key: 'k', reason: 'revoked' }]);
    expect(signal.reason).toBe(losses[0]);
    expect(reporter.lines).toEqual([expect.stringContaining('error The lock "k" (write, fencing token 100) was lost')]);
  });

  it('has its release tried again until it is confirmed', async () => {
    const { clock, store, locker, under } = start();
    await under('k', () => undefined, NO_WAIT);
    store.releases[0]!.fail(new LockStoreError('down'));
    await clock.advance(1_000);
    expect([store.givenBack, locker.live.releasing]).toEqual([['k', 'k'], 1]);
    store.releases[1]!.reply(released());
    await settled();
    expect(locker.live.releasing).toBe(0);
  });

  it('leaves no rejection behind when its release is never confirmed, and the log tells it', async () => {
    const { clock, store, reporter, locker, under, losses } = start();
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    expect(await under('k', () => 'done', NO_WAIT)).toBe('done');
    await clock.advance(10_000);
    expect([locker.live.releasing, clock.keptAlive, losses]).toEqual([0, 0, []]);
    expect(reporter.lines).toEqual([expect.stringContaining('warn The lock "k" could not be released')]);
  });

  it('has its release waited for by a shutdown', async () => {
    const { store, locker, under } = start();
    await under('k', () => undefined, NO_WAIT);
    const closing = outcomeOf(locker.close(1_000));
    await settled();
    expect(closing).toStrictEqual({});
    store.releases[0]!.reply(released());
    await settled();
    expect(closing).toStrictEqual({ value: undefined });
  });

  it('has its loss reported outside of the async context of its caller', async () => {
    const { store, locker, under } = start();
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    locker.events.on('lost', () => seen.push(context.getStore()));
    await context.run('the caller', () => under('k', () => undefined, NO_WAIT));
    store.releases[0]!.reply(GONE);
    await settled();
    expect(seen).toEqual([undefined]);
  });
});

describe('`awaitRelease` of calls with more than one lock', () => {
  it('counts for the outermost call; a nested one only leaves', async () => {
    const { store, under } = start();
    const nested = (awaitRelease: boolean) => () => under('k', () => 'inside', { awaitRelease });
    expect(await under('k', nested(true), NO_WAIT)).toBe('inside');
    const waiting = outcomeOf(under('k', nested(false)));
    await settled();
    expect(waiting).toEqual({});
    store.releases[1]!.reply(released());
    await settled();
    expect(waiting).toEqual({ value: 'inside' });
  });

  it('returns although a nested call that nobody awaits is still inside, which then releases the lock', async () => {
    const { store, under } = start();
    const { opened, open } = gate();
    await under('k', () => void under('k', () => opened, NO_WAIT), NO_WAIT);
    expect(store.givenBack).toEqual([]);
    open();
    await settled();
    expect(store.givenBack).toEqual(['k']);
  });

  it.each([
    ['in different slots', ['a', 'b'], ['a', 'b']],
    ['in one slot', ['a+b'], ['a', 'b']],
  ])('sends the release of each key before it returns (%s)', async (_where, groups, keys) => {
    const { store, under } = start();
    store.groups = () => groups.map((group) => group.split('+'));
    expect(await under(keys, () => 'done', NO_WAIT)).toBe('done');
    expect(store.givenBack).toEqual(keys);
  });

  it('waits for all releases when the lease of one key is not proven', async () => {
    const { clock, store, under } = start();
    store.groups = () => [['a'], ['b']];
    const call = outcomeOf(under(['a', 'b'], () => void (clock.wallOffsetMs += 60_000), NO_WAIT));
    await settled();
    expect(call).toStrictEqual({});
    for (const release of store.releases) release.reply(released());
    await settled();
    expect(call).toStrictEqual({ value: undefined });
  });

  it('releases keys of its own and leaves those of the outer call', async () => {
    const { store, under } = start();
    await under('a', async () => {
      expect(await under(['a', 'b'], () => 'inside', NO_WAIT)).toBe('inside');
      expect(store.givenBack).toEqual(['b']);
    }, NO_WAIT); // prettier-ignore
    expect(store.givenBack).toEqual(['b', 'a']);
  });
});

describe('a stream with `awaitRelease: false`', () => {
  it('ends at once, and rejects when its lock was lost before', async () => {
    const { store, locker, enter } = start();
    const [kept, lost] = await Promise.all([enter('a', NO_WAIT), enter('b', NO_WAIT)]);
    await heldStreamLock(kept, locker, 1_000).end('done');
    expect(store.givenBack).toEqual(['a']);
    lost.lose('revoked');
    await expect(heldStreamLock(lost, locker, 1_000).end('done')).rejects.toMatchObject({ reason: 'revoked' });
  });
});
