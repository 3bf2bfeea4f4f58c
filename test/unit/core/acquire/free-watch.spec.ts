import { LockBusyError, LockShutdownError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type LockState } from '../../../../lib/core/store/lock-state.js';
import { NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection } from '../../../support/waiting/rejection.js';

const FREE = { mode: 'free', holders: [], waiters: 0, queue: [], permits: null, fencingToken: 9 } as const;

const heldFor = (remainingMs: number): Omit<LockState, 'key'> => {
  const holder = {
    owner: 'o',
    attempt: 'other.1',
    mode: 'write',
    take: 1,
    host: 'far',
    pid: 7,
    where: 'Shop.sell',
    note: '',
  } as const;
  return { ...FREE, mode: 'write', holders: [{ ...holder, since: new Date(0), remainingMs, fencingToken: 9 }] };
};

const away = (retryable: boolean) => new LockStoreError('Redis is away.', { key: 'k', retryable });

/** A locker whose store reports what the test sets, and records the inspections. */
function startWatch(first: Omit<LockState, 'key'> | Error) {
  const started = startLocker();
  const { clock, store, locker } = started;
  const looks: number[] = [];
  const told = { state: first };
  store.onInspect = async (key) => {
    looks.push(clock.now());
    if (told.state instanceof Error) throw told.state;
    return { key, ...told.state };
  };
  const wait = (waitMs = 10_000, signal?: AbortSignal) => locker.waitUntilFree(['k'], { waitMs, signal });
  return { ...started, looks, told, wait };
}

describe('a call that waits until a lock is free', () => {
  it('inspects a free lock once', async () => {
    const { looks, wait, locker, clock } = startWatch(FREE);
    await wait(0);
    expect([looks.length, locker.live, clock.keptAlive]).toEqual([1, NOTHING, 0]);
  });

  it('inspects it again after a pause that grows to a second, until the lock is free', async () => {
    const { looks, told, wait, locker, clock } = startWatch(heldFor(60_000));
    const call = outcomeOf(wait());
    await clock.advance(5_000);
    expect(call).toEqual({});
    const pauses = looks.slice(1).map((at, i) => at - looks[i]!);
    expect(pauses[0]).toBeLessThanOrEqual(50);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1_000);
    expect(looks.length).toBeLessThan(25);
    told.state = FREE;
    await clock.advance(1_000);
    expect('value' in call).toBe(true);
    expect([locker.live, clock.keptAlive]).toEqual([NOTHING, 0]);
  });

  it('inspects it as soon as the last lease is over', async () => {
    const { looks, wait, clock } = startWatch(heldFor(30));
    void wait().catch(() => undefined);
    await settled();
    expect(looks).toHaveLength(1);
    await clock.advance(33);
    expect(looks.length).toBeGreaterThanOrEqual(2);
  });

  it('inspects it at once when a hold of its process ends, but at most every 20 ms', async () => {
    const { looks, told, wait, locker, clock, under } = startWatch(heldFor(60_000));
    const call = outcomeOf(wait());
    await clock.advance(3_000);
    // The pauses are random: the last inspection may be recent.
    while (clock.now() - looks.at(-1)! < 20) await clock.advance(20);
    for (let i = 0; i < 50; i += 1) await under('k', () => undefined);
    await settled();
    const before = looks.length;
    expect(clock.now() - looks.at(-1)!).toBe(0);
    told.state = FREE;
    await clock.advance(20);
    expect(looks.length).toBeLessThanOrEqual(before + 1);
    expect('value' in call).toBe(true);
    expect(locker.live.waiting).toBe(0);
  });

  it('is not answered by an inspection that began before it', async () => {
    const { store, wait, clock } = startWatch(FREE);
    const answers: ((state: LockState) => void)[] = [];
    store.onInspect = () => new Promise((resolve) => answers.push(resolve));
    const first = outcomeOf(wait());
    const second = outcomeOf(wait());
    answers[0]!({ key: 'k', ...FREE });
    await settled();
    expect(['value' in first, 'value' in second, answers.length]).toEqual([true, false, 1]);
    await clock.advance(20);
    answers[1]!({ key: 'k', ...FREE });
    await settled();
    expect('value' in second).toBe(true);
  });

  it('shares its inspections with the other calls for the same locks', async () => {
    const { looks, wait, locker, clock } = startWatch(heldFor(60_000));
    for (let i = 0; i < 1_000; i += 1) void wait().catch(() => undefined);
    await clock.advance(5_000);
    expect(looks.length).toBeLessThan(25);
    expect(locker.live.waiting).toBe(1_000);
  });

  it.each([
    ['LockBusyError with waitMs: 0', heldFor(60_000), 0, LockBusyError],
    ['an error that another try cannot fix', away(false), 10_000, LockStoreError],
  ])('rejects at once with %s', async (_what, state, waitMs, type) => {
    const { wait, clock, looks } = startWatch(state);
    const outcome = outcomeOf(wait(waitMs));
    await clock.advance(0);
    expect([outcome.error, looks.length]).toEqual([expect.any(type), 1]);
  });

  it('rejects with the reason of its signal, before and during the wait', async () => {
    const { wait, locker } = startWatch(heldFor(60_000));
    expect(await rejection(wait(1_000, AbortSignal.abort('early')))).toBe('early');
    const abort = new AbortController();
    const error = rejection(wait(1_000, abort.signal));
    await settled();
    abort.abort('late');
    expect(await error).toBe('late');
    expect(locker.live).toEqual(NOTHING);
  });

  it('outlives an outage, and reports it when its time is over', async () => {
    const { told, wait, clock } = startWatch(away(true));
    const [short, long] = [rejection(wait(500)), outcomeOf(wait(5_000))];
    await clock.advance(500);
    expect(await short).toBe(told.state);
    told.state = FREE;
    await clock.advance(1_000);
    expect('value' in long).toBe(true);
  });

  it('waits for the first answer for a second, and then rejects', async () => {
    const { store, wait, clock } = startWatch(FREE);
    store.onInspect = () => new Promise(() => undefined);
    const error = outcomeOf(wait(100));
    await clock.advance(1_000);
    expect(error).toEqual({});
    await clock.advance(100);
    expect(error.error).toBeInstanceOf(LockStoreError);
  });

  it('rejects when the app shuts down, and after that', async () => {
    const { wait, locker } = startWatch(heldFor(60_000));
    const error = rejection(wait());
    await settled();
    await locker.close(0);
    expect(await error).toBeInstanceOf(LockShutdownError);
    expect(await rejection(wait())).toBeInstanceOf(LockShutdownError);
    expect(locker.live).toEqual(NOTHING);
  });

  it('waits until all of several locks are free in one inspection', async () => {
    const { store, locker, clock } = startWatch(FREE);
    const held = new Set(['b']);
    store.onInspect = async (key) => ({ key, ...(held.has(key) ? heldFor(60_000) : FREE) });
    const call = outcomeOf(locker.waitUntilFree(['a', 'b', 'a'], { waitMs: 10_000, signal: undefined }));
    await clock.advance(1_000);
    expect(call).toEqual({});
    held.clear();
    await clock.advance(1_000);
    expect('value' in call).toBe(true);
  });
});
