import { AsyncLocalStorage } from 'node:async_hooks';
import { assertLocked, currentLock } from '../../../lib/core/reentry/context.js';
import { LockLostError, LockNotHeldError, LockShutdownError, LockStoreError } from '../../../lib/core/lock.errors.js';
import { type Lock } from '../../../lib/core/lock.js';
import type { LeadOptions, Leadership } from '../../../lib/leader/leadership.js';
import { Leaders } from '../../../lib/leader/leaders.js';
import { OTHERS_FIRST_MS } from '../../../lib/core/timing.js';
import { startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';
import { busy, granted } from '../../support/core/fake-store.js';
import { gate } from '../../support/waiting/gate.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { rejection } from '../../support/waiting/rejection.js';

/** The time that the work of a term may take to end after its signal was aborted. */
const DRAIN_MS = 400;

const DEFAULTS = { leaseMs: 3_000, waitMs: 0, maxHoldMs: 1, awaitRelease: true, isQuorum: false, drainMs: DRAIN_MS };

/** Campaigns on a store that elects at once, and everything that they report. */
function startLeaders() {
  const parts = startLocker();
  const leaders = new Leaders(parts.locker, DEFAULTS);
  const told: string[] = [];
  for (const name of ['elected', 'demoted', 'skipped'] as const) {
    parts.locker.events.on(name, (event) => told.push('reason' in event ? `${name}: ${event.reason}` : name));
  }
  /** A campaign that has been elected. */
  const elected = async (options: LeadOptions = {}): Promise<Leadership> => {
    const leadership = leaders.lead('reports', options);
    await leadership.waitUntilLeader();
    await settled();
    return leadership;
  };
  /** Revokes the lock of the leader. */
  const revoke = (): void => {
    for (const hold of parts.locker.holds) hold.lose('revoked');
  };
  return { ...parts, leaders, told, elected, revoke };
}

describe('a campaign', () => {
  it('waits as long as another instance leads', async () => {
    const { leaders, store, clock } = startLeaders();
    const answer = store.onAcquire;
    store.onAcquire = () => busy();
    const leadership = leaders.lead('reports');
    await clock.advance(3_600_000);
    expect([leadership.isLeader(), leadership.term]).toEqual([false, undefined]);
    const elected = leadership.waitUntilLeader();
    store.onAcquire = answer;
    await clock.advance(3_000);
    expect(await elected).toBe(leadership.term);
  });

  it.each([
    [
      'host:1 Jobs.lead',
      /^warn .* held by host:1 Jobs.lead, this process or an earlier one with the same name\. .* 3000 ms\.$/,
    ],
    ['web-2:7', /^debug .* held by web-2:7\. /],
  ])('names once the leader that it waits for: %s', async (holder, line) => {
    const { leaders, store, clock, reporter } = startLeaders();
    store.onAcquire = () => busy({ holder });
    leaders.lead('reports');
    await clock.advance(3_600_000);
    expect(reporter.lines).toEqual([expect.stringMatching(line)]);
  });

  it('lasts longer than the module lets a lock be held', async () => {
    const { elected, clock } = startLeaders();
    const leadership = await elected();
    await clock.advance(600_000);
    expect(leadership.isLeader()).toBe(true);
  });

  it('calls its hooks as the holder of the lock, in no context of the caller', async () => {
    const { leaders } = startLeaders();
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const look = (): void => {
      assertLocked('reports');
      seen.push(storage.getStore(), currentLock().fencingToken);
    };
    const leadership = storage.run('a request', () => leaders.lead('reports', { onElected: look, onDemoted: look }));
    await leadership.waitUntilLeader();
    await storage.run('another request', () => leadership.stop());
    expect(seen).toEqual([undefined, 100, undefined, 100]);
  });

  it('logs what a hook throws, and continues to lead', async () => {
    const { elected, reporter } = startLeaders();
    const leadership = await elected({
      onElected: () => Promise.reject(new Error('no disk')),
      onDemoted: () => {
        throw new Error('no disk either');
      },
    });
    expect(leadership.isLeader()).toBe(true);
    await leadership.stop();
    expect(reporter.lines).toEqual([
      'error onElected of the leader of "reports" threw: no disk',
      'error onDemoted of the leader of "reports" threw: no disk either',
    ]);
  });

  it('does not keep the process alive while it leads', async () => {
    const { elected, clock } = startLeaders();
    await elected();
    expect(clock.keptAlive).toBe(0);
  });
});

describe('a leader that loses its lock', () => {
  it('is notified in the turn of the loss: by isLeader, the signal, then the hook', async () => {
    const { elected, revoke, told, store } = startLeaders();
    const seen: unknown[] = [];
    const leadership = await elected({
      onDemoted: (term, reason) => seen.push(reason, term.fencingToken, term.signal.aborted, leadership.isLeader()),
    });
    const { signal } = leadership.term!;
    store.onAcquire = () => busy();
    revoke();
    expect(seen).toEqual(['revoked', 100, true, false]);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(told).toEqual(['elected', 'demoted: revoked']);
  });

  it('finds by its own clocks that its lease is over, before any timer fires', async () => {
    const { elected, clock, store } = startLeaders();
    const leadership = await elected();
    store.onAcquire = () => busy();
    clock.jump(3_000);
    expect([leadership.isLeader(), leadership.term]).toEqual([false, undefined]);
  });

  it('campaigns again only when the work of its term has ended, and reports it if that takes long', async () => {
    const { elected, revoke, clock, reporter, store } = startLeaders();
    const work = gate();
    let terms = 0;
    const leadership = await elected({ onElected: () => ((terms += 1) === 1 ? work.opened : undefined) });
    revoke();
    await clock.advance(10_000);
    expect([store.acquires.length, terms, leadership.isLeader()]).toEqual([1, 1, false]);
    expect(reporter.lines.filter((line) => line.includes('continues after its end'))).toHaveLength(1);
    work.open();
    await clock.advance(OTHERS_FIRST_MS);
    expect([store.acquires.length, terms, leadership.isLeader()]).toEqual([2, 2, true]);
  });
});

describe('a leader that steps down', () => {
  it('is notified, releases the lock, and campaigns again after others had their turn', async () => {
    const { elected, clock, told, store } = startLeaders();
    const leadership = await elected();
    const { signal } = leadership.term!;
    await leadership.resign();
    expect(signal.reason).toBeInstanceOf(LockNotHeldError);
    expect([leadership.isLeader(), store.givenBack, told]).toEqual([
      false,
      ['reports'],
      ['elected', 'demoted: resigned'],
    ]);
    await clock.advance(OTHERS_FIRST_MS - 1);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(1);
    expect([store.acquires.length, leadership.isLeader()]).toEqual([2, true]);
  });

  it('keeps the lock until the work of the term and onDemoted have ended', async () => {
    const { elected, store } = startLeaders();
    const [work, flushed] = [gate(), gate()];
    const leadership = await elected({ onElected: () => work.opened, onDemoted: () => flushed.opened });
    const stopped = outcomeOf(leadership.stop().then(() => 'stopped'));
    await settled();
    expect([leadership.isLeader(), store.givenBack, stopped.value]).toEqual([false, [], undefined]);
    work.open();
    await settled();
    expect(store.givenBack).toEqual([]);
    flushed.open();
    await settled();
    expect([store.givenBack, stopped.value]).toEqual([['reports'], 'stopped']);
  });

  it('keeps it for no longer than `drainMs`; then that work has lost its lock', async () => {
    const { elected, store, clock, told } = startLeaders();
    const locks: Lock[] = [];
    const leadership = await elected({
      onElected: () => {
        locks.push(currentLock());
        return gate().opened;
      },
    });
    const stopped = outcomeOf(leadership.stop().then(() => 'stopped'));
    await clock.advance(DRAIN_MS);
    expect([store.givenBack, stopped.value]).toEqual([['reports'], 'stopped']);
    expect(locks[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
    expect(told).toEqual(['elected', 'demoted: stopped']);
  });

  it('does not wait for the work that calls it', async () => {
    const { store, leaders } = startLeaders();
    const steps: string[] = [];
    const leadership = leaders.lead('reports', {
      onElected: async () => {
        await leadership.resign();
        await leadership.stop();
        steps.push(`elected ${store.givenBack.length}`);
      },
      onDemoted: async () => {
        await leadership.stop();
        steps.push(`demoted ${store.givenBack.length}`);
      },
    });
    await settled();
    expect(steps).toEqual(['demoted 0', 'elected 0']);
    expect(store.givenBack).toEqual(['reports']);
  });

  it('steps down when its work releases the lock of the term, and is elected again after others', async () => {
    const { elected, store, clock, told } = startLeaders();
    const seen: unknown[] = [];
    const leadership = await elected({
      onElected: async ({ signal }) => {
        await currentLock().release();
        seen.push(signal.reason, store.givenBack.length);
      },
      onDemoted: (_term, reason) => seen.push(reason, store.givenBack.length),
    });
    expect(seen).toMatchObject(['resigned', 0, { code: 'LOCK_NOT_HELD' }, 1]);
    expect([leadership.isLeader(), told]).toEqual([false, ['elected', 'demoted: resigned']]);
    await clock.advance(OTHERS_FIRST_MS);
    expect(told).toEqual(['elected', 'demoted: resigned', 'elected', 'demoted: resigned']);
    await leadership.stop();
  });

  it.each<[string, (leadership: Leadership) => Promise<unknown>]>([
    ['at once', () => currentLock().release()],
    ['after it has resigned', (leadership) => leadership.resign().then(() => currentLock().release())],
  ])('does not wait for the work that calls it and has released the lock of the term %s', async (_when, release) => {
    const { leaders, store } = startLeaders();
    const steps: string[] = [];
    const leadership: Leadership = leaders.lead('reports', {
      onElected: async () => {
        await release(leadership);
        await leadership.stop();
        steps.push('elected');
      },
      onDemoted: async () => {
        await leadership.stop();
        steps.push('demoted');
      },
    });
    await settled();
    expect([steps.toSorted(), store.givenBack]).toEqual([['demoted', 'elected'], ['reports']]);
  });

  it('does not begin its work when a listener of `elected` has ended the term', async () => {
    const { leaders, locker, told } = startLeaders();
    const hooks: string[] = [];
    const leadership = leaders.lead('reports', {
      onElected: () => hooks.push('elected'),
      onDemoted: () => hooks.push('demoted'),
    });
    locker.events.on('elected', () => leadership.resign());
    await settled();
    expect([hooks, told]).toEqual([['demoted'], ['elected', 'demoted: resigned']]);
    await leadership.stop();
  });

  it.each([
    ['stop()', async (leadership: AsyncDisposable & { stop(): Promise<void> }) => leadership.stop()],
    ['the end of its block', async (leadership: AsyncDisposable) => leadership[Symbol.asyncDispose]()],
  ])('is never elected again after %s', async (_how, end) => {
    const { elected, clock, store, told } = startLeaders();
    const leadership = await elected();
    await end(leadership);
    await end(leadership);
    await clock.advance(60_000);
    expect([store.acquires.length, told]).toEqual([1, ['elected', 'demoted: stopped']]);
    expect(await rejection(leadership.waitUntilLeader())).toBeInstanceOf(LockNotHeldError);
  });

  it('is stopped by its signal, like one that waits', async () => {
    const { elected, leaders, store, told } = startLeaders();
    const [own, other] = [new AbortController(), new AbortController()];
    await elected({ signal: own.signal });
    own.abort();
    await settled();
    expect(told).toEqual(['elected', 'demoted: stopped']);
    store.onAcquire = () => busy();
    const waiting = leaders.lead('reports', { signal: other.signal }).waitUntilLeader();
    await settled();
    other.abort('enough');
    await expect(waiting).rejects.toBe('enough');
    expect(() => leaders.lead('reports', { signal: other.signal })).toThrow('enough');
  });

  it('gives back a lock that is granted after it was stopped', async () => {
    const { leaders, store, told } = startLeaders();
    store.onAcquire = null;
    const leadership = leaders.lead('reports');
    await settled();
    const stopped = leadership.stop();
    store.acquires[0]!.reply(granted(3_000, 100));
    await stopped;
    await settled();
    expect([new Set(store.givenBack), told]).toEqual([new Set(['reports']), []]);
  });

  it('leaves no listener behind when it was stopped before it began', async () => {
    const { leaders, locker, store } = startLeaders();
    const campaign = leaders.create('reports', {});
    await campaign.stop();
    campaign.start();
    await settled();
    expect([store.acquires.length, locker.events.isHeard('waiting')]).toEqual([0, false]);
  });

  it('steps down when the module closes, and the next one need not wait for the end of the drain', async () => {
    const { elected, locker, store, told } = startLeaders();
    const leadership = await elected();
    const { signal } = leadership.term!;
    await locker.close(60_000);
    expect(signal.reason).toBeInstanceOf(LockShutdownError);
    expect([store.givenBack, told]).toEqual([['reports'], ['elected', 'demoted: shutdown']]);
    await expect(leadership.waitUntilLeader()).rejects.toBeInstanceOf(LockShutdownError);
  });

  it('ends its campaign when it begins in a module that is closed', async () => {
    const { leaders, locker, reporter } = startLeaders();
    await locker.close(0);
    await expect(leaders.lead('reports').waitUntilLeader()).rejects.toBeInstanceOf(LockShutdownError);
    expect(reporter.lines).toEqual([]);
  });
});

describe('a campaign that fails', () => {
  it('is tried again after longer and longer pauses, and is reported once', async () => {
    const { leaders, store, clock, reporter } = startLeaders();
    const answer = store.onAcquire;
    store.onAcquire = () => {
      throw new LockStoreError('Wrong password.', { retryable: false });
    };
    const leadership = leaders.lead('reports');
    await clock.advance(10_000);
    const early = store.acquires.length;
    expect(early).toBeGreaterThan(2);
    await clock.advance(600_000);
    const later = store.acquires.length - early;
    expect(later).toBeGreaterThan(600_000 / 31_000);
    expect(later).toBeLessThan(600_000 / 14_000);
    expect(reporter.lines).toEqual(['error The campaign for "reports" failed, and is tried again: Wrong password.']);
    store.onAcquire = answer;
    await clock.advance(31_000);
    expect(leadership.isLeader()).toBe(true);
  });

  it('is tried again soon if it has waited well since its last failure', async () => {
    const { leaders, store, clock } = startLeaders();
    const answer = store.onAcquire;
    const fail = (): never => {
      throw new LockStoreError('Wrong password.', { retryable: false });
    };
    store.onAcquire = fail;
    const leadership = leaders.lead('reports');
    await clock.advance(300_000);
    store.onAcquire = () => busy();
    await clock.advance(60_000);
    const before = store.acquires.length;
    store.onAcquire = fail;
    while (store.acquires.length === before) await clock.advance(100);
    store.onAcquire = answer;
    await clock.advance(1_000);
    expect(leadership.isLeader()).toBe(true);
  });
});

describe('a campaign cannot begin', () => {
  it.each([
    ['without a key', '', {}, /non-empty string/],
    ['for several keys', ['a', 'b'], {}, /non-empty string/],
    ['with options that are not an object', 'reports', null, /options of lead\(\) to be an object/],
    ['with an unknown option', 'reports', { waitMs: 5 }, /Unknown option `waitMs` of lead\(\)/],
    ['with a wrong hook', 'reports', { onElected: 'now' }, /`onElected` to be a function/],
    ['with a wrong lease', 'reports', { leaseMs: 1 }, /`leaseMs`/],
    ['with a wrong signal', 'reports', { signal: {} }, /`signal` to be an AbortSignal/],
  ])('%s', (_how, key, options, text) => {
    const { leaders, store } = startLeaders();
    expect(() => leaders.lead(key as string, options as never)).toThrow(text);
    expect(store.acquires).toEqual([]);
  });
});
