import { Hold } from '../../../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { enterLock } from '../../../../../lib/core/reentry/enter-lock.js';
import { runWithLock } from '../../../../../lib/core/reentry/run.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { FakeClock, settled } from '../../../../support/core/fake-clock.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { thrownBy } from '../../../../support/waiting/rejection.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A locker whose calls are entered in the turn in which they are made, if that is possible. */
function start() {
  const started = startLocker();
  const { locker, store } = started;
  const enterNow = (options: Partial<ResolvedLockOptions> = {}) =>
    enterLock(locker, locker.request(['k'], lockOptions(options)));
  const underNow = <T>(work: (lock: Hold) => T | Promise<T>, options?: Partial<ResolvedLockOptions>): Promise<T> =>
    runWithLock(enterNow(options), work);
  const revoke = () => store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
  return { ...started, enterNow, underNow, revoke };
}

describe('a nested call on a key that its chain of calls holds', () => {
  it('runs its work in the turn of the call, with its event, and has left when plain work returns', async () => {
    const { under, underNow, locker } = start();
    const seen: unknown[] = [];
    locker.events.on('reentered', ({ mode, waitedMs }) => seen.push({ mode, waitedMs }));
    await under('k', async (outer) => {
      const nested = underNow((lock) => seen.push(lock.held), { mode: 'read' });
      const next = underNow(() => seen.push(outer.held));
      const [reading, writing] = (['read', 'write'] as const).map((mode) => ({ mode, waitedMs: 0 }));
      expect(seen).toEqual([reading, true, writing, true]);
      expect(await Promise.all([nested, next])).toEqual([2, 4]);
    });
    expect(locker.live).toEqual(NOTHING);
  });

  it('may be a recursion of any depth', async () => {
    const { under, underNow, locker } = start();
    const descend = (depth: number): string | Promise<string> =>
      depth === 0 ? 'bottom' : underNow(() => descend(depth - 1));
    expect(await under('k', () => descend(2_000))).toBe('bottom');
    expect(locker.live).toEqual(NOTHING);
  });

  it('keeps its turn until a thenable has settled, whose `then` is read once', async () => {
    const { under, underNow, enterNow } = start();
    await under('k', async () => {
      let reads = 0;
      const { opened, open } = gate();
      const thenable = {
        // oxlint-disable-next-line unicorn/no-thenable -- a result of the application
        get then() {
          reads += 1;
          return (resolve: (value: string) => void) => void opened.then(() => resolve('done'));
        },
      };
      const nested = underNow(() => thenable as unknown as Promise<string>);
      await settled();
      await expect(enterNow({ waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      open();
      expect([await nested, reads]).toEqual(['done', 1]);
    });
  });

  it.each<[string, { mode?: 'read'; reentrant?: false }, { mode?: 'read' }, string]>([
    ['that would upgrade from read to write', {}, { mode: 'read' }, 'an upgrade would wait for itself'],
    ['with reentrant: false', { reentrant: false }, {}, '`reentrant: false` forbids that'],
  ])('is refused at once %s', async (_what, options, outer, text) => {
    const { store, under, underNow, enterNow } = start();
    const expected = { code: 'LOCK_REENTRY', key: 'k', mode: 'write', message: expect.stringContaining(text) };
    const refused = () => expect(thrownBy(() => enterNow(options))).toMatchObject(expected);
    await under('k', refused, outer);
    await under('k', () => underNow(refused, outer));
    expect(store.asked).toEqual(['k', 'k']);
  });

  it('is refused with the reason of an aborted signal, and leaves the slot free', async () => {
    const { under, underNow, enterNow } = start();
    const signal = AbortSignal.abort(new Error('the user went away'));
    await under('k', async () => {
      expect(thrownBy(() => enterNow({ signal }))).toBe(signal.reason);
      expect(await underNow(() => 'next')).toBe('next');
    });
  });

  it.each<[string, (started: ReturnType<typeof start>) => unknown, string]>([
    ['was revoked', ({ revoke }) => revoke(), 'revoked'],
    ['ran out before any timer fired', ({ clock }) => clock.jump(60_000), 'expired'],
    ['is revoked by a listener of its event', ({ locker, revoke }) => locker.events.on('reentered', revoke), 'revoked'],
  ])('is refused with the loss of the outer lock, which %s', async (_what, happens, reason) => {
    const started = start();
    const { store, under, enterNow, locker } = started;
    const outer = under('k', (lock) => {
      happens(started);
      const error = thrownBy(() => enterNow());
      expect(error).toBe(lock.lost);
      return 'returned';
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST', reason, result: 'returned' });
    expect([store.asked, locker.live]).toEqual([['k'], NOTHING]);
  });
});

describe('siblings under one hold', () => {
  /**
   * Plays the steps under a write: `w`, `r` and `p` (a permit) begin the nested call whose name follows, `-` ends one that is
   * inside, `x` aborts one that waits. Returns who entered at each step.
   */
  async function play(steps: string): Promise<string> {
    const { under, underNow } = start();
    const [calls, entered, log] = [new Map<string, { end(): void; abort(): void }>(), [] as string[], [] as string[]];
    const begin = (use: string, name: string): void => {
      const [{ opened, open }, abort] = [gate(), new AbortController()];
      const options = {
        mode: use === 'w' ? 'write' : 'read',
        permits: use === 'p' ? 2 : 0,
        signal: abort.signal,
      } as const;
      outcomeOf(underNow(() => (entered.push(name), opened), options));
      calls.set(name, { end: open, abort: () => abort.abort(new Error('enough')) });
    };
    await under('k', async () => {
      for (const [step, name] of steps.split(' ') as Iterable<string>) {
        if (step === '-') calls.get(name!)!.end();
        else if (step === 'x') calls.get(name!)!.abort();
        else begin(step!, name!);
        await settled();
        log.push(entered.splice(0).join('') || '.');
      }
      for (const call of calls.values()) call.end();
    });
    return log.join(' ');
  }

  it.each([
    ['writers one at a time, in the order of the calls', 'wa wb wc -a -b', 'a . . b c'],
    ['readers together, and a writer after the last of them', 'ra rb wc -a -b', 'a b . . c'],
    ['all readers after a writer', 'wa rb rc -a', 'a . . bc'],
    ['no reader before a writer that came first', 'ra wb rc -a -b', 'a . . b c'],
    ['the readers behind a writer that was aborted', 'ra wb rc rd xb', 'a . . . cd'],
    ['the next one when one that waits was aborted', 'wa wb wc xb -a', 'a . . . c'],
    ['users of a permit one at a time, beside readers, and never beside a writer', 'pa rb pc -b wd -a -c pe -d', 'a b . . . c d . e'],
  ])('are admitted: %s', async (_what, steps, entered) => {
    expect(await play(steps)).toBe(entered);
  }); // prettier-ignore

  it('use the one permit of a semaphore alone', async () => {
    const { under, enterNow } = start();
    const permits = { mode: 'read', permits: 2 } as const;
    const work = () => {
      expect(enterNow(permits)).toBeInstanceOf(Hold);
      return expect(enterNow({ ...permits, waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    };
    await under('k', work, permits);
  });

  it('may not downgrade a lock that the outer call writes, unless they only read', async () => {
    const { store, under } = startLocker();
    await under('k', async (outer) => {
      await under('k', async (inner) => {
        for (const lock of [inner, outer]) {
          await expect(lock.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' });
        }
      });
      await under('k', (inner) => inner.downgrade(), { mode: 'read' });
      await outer.downgrade();
    });
    expect(store.downgrades).toHaveLength(1);
  });
});

describe('a call that is not nested', () => {
  it('does not see the holds of another locker', async () => {
    const clock = new FakeClock();
    const [one, two] = [startLocker({ clock, clientId: 'one' }), startLocker({ clock, clientId: 'two' })];
    const inner = () => one.under('k', ({ owner }) => expect(owner).toBe(one.store.acquires[0]!.request.attempt));
    await one.under('k', () => two.under('k', inner, { reentrant: false }));
    expect([one.store.asked, two.store.asked]).toEqual([['k'], ['k']]);
  });
});
