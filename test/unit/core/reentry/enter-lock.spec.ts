import { Hold } from '../../../../lib/core/hold/hold.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { enterLock, refuseReentry } from '../../../../lib/core/reentry/enter-lock.js';
import { CLAIM } from '../acquire/start-calls.js';
import { runWithLock } from '../../../../lib/core/reentry/run.js';
import { lockOptions, NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { eventually } from '../../../support/waiting/eventually.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection, thrownBy } from '../../../support/waiting/rejection.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { type LockError } from '../../../../lib/core/lock.errors.js';

/** A locker whose calls are entered in the turn in which they are made, if that is possible. */
function start() {
  const started = startLocker();
  const { locker } = started;
  const enterNow = (options: Partial<ResolvedLockOptions> = {}) =>
    enterLock(locker, locker.request(['k'], lockOptions(options)));
  const underNow = <T>(work: (lock: Hold) => T | Promise<T>, options?: Partial<ResolvedLockOptions>): Promise<T> =>
    runWithLock(enterNow(options), work);
  return { ...started, enterNow, underNow };
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

  it.each<[string, Partial<ResolvedLockOptions>, Partial<ResolvedLockOptions>]>([
    ['reads under a writer', {}, { mode: 'read' }],
    ['uses a permit', { mode: 'read', permits: 2 }, { mode: 'read', permits: 2 }],
  ])(
    'ends all outer calls of any depth that did not await it, and finds each of them: it %s',
    async (_what, outer, own) => {
      const { under, underNow, locker } = start();
      const { opened, open } = gate();
      const all: Promise<unknown>[] = [];
      const descend = (depth: number, outermost: Hold): void =>
        void all.push(
          underNow((lock) => {
            if (depth > 0) return descend(depth - 1, outermost);
            expect([lock.isInside(outermost), lock.fencingToken]).toEqual([true, outermost.fencingToken]);
            return opened;
          }, own),
        );
      await under('k', (outermost) => descend(16_000, outermost), outer);
      await eventually(() => all.length === 16_001, { timeoutMs: 50_000 });
      open();
      await Promise.all(all);
      await settled();
      expect(locker.live).toEqual(NOTHING);
    },
  );

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
    [
      'is revoked by a listener of its event',
      ({ locker, revoke }) => locker.events.on('reentered', () => revoke()),
      'revoked',
    ],
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
    ['users of a permit one at a time, together with readers, and never with a writer', 'pa rb pc -b wd -a -c pe -d', 'a b . . . c d . e'],
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
});

describe('a nested call for several keys', () => {
  it('does not wait for siblings on other keys of one hold, and enters in the order of the keys', async () => {
    const { store, under } = startLocker();
    const order: string[] = [];
    const sibling = (name: string, keys: string[]) =>
      under(keys, async () => {
        order.push(`${name} in`);
        await settled();
        order.push(`${name} out`);
      });
    await under(['a', 'b', 'c'], () =>
      Promise.all([sibling('one', ['b', 'a']), sibling('two', ['a', 'b']), sibling('three', ['c'])]),
    );
    expect(order.slice(0, 2).toSorted()).toEqual(['one in', 'three in']);
    expect(order.filter((step) => !step.startsWith('three'))).toEqual(['one in', 'one out', 'two in', 'two out']);
    expect(store.asked).toEqual(['a+b+c']);
  });

  it('leaves the holds that it has entered when the missing keys are busy', async () => {
    const { store, under } = startLocker();
    await under('a', async () => {
      store.onAcquire = () => busy();
      const both = under(['a', 'b'], () => 'ran', { waitMs: 0 });
      await expect(both).rejects.toMatchObject({ code: 'LOCK_BUSY', key: 'b' });
      expect(await under('a', () => 'entered')).toBe('entered');
    });
    expect(store.givenBack).toEqual(['a']);
  });

  it('leaves the holds that it has entered when a sibling keeps another key for too long', async () => {
    const { clock, under, locker } = startLocker();
    const { opened, open } = gate();
    await under(['a', 'b'], async () => {
      const inside = under('b', () => opened);
      const both = outcomeOf(under(['b', 'a'], () => 'ran', { waitMs: 1_000 }));
      // It has entered the first of its keys, and waits for the second.
      await expect(under('a', () => 'entered', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      await clock.advance(1_000);
      expect(both.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: 'b' });
      expect(await under('a', () => 'entered')).toBe('entered');
      open();
      await inside;
    });
    expect(locker.live).toEqual(NOTHING);
  });

  it('has no listener on the outer hold after it has left', async () => {
    const { under, revoke } = startLocker();
    const outer = under('a', async () => {
      const signal = await under(['a', 'b'], (both) => both.signal);
      revoke();
      expect(signal.aborted).toBe(false);
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('does not wait for a sibling when the outer lock was lost while it waited for another one', async () => {
    const { under, revoke } = startLocker();
    const [first, second] = [gate(), gate()];
    const work = async () => {
      const siblings = [under('a', () => first.opened), outcomeOf(under('b', () => second.opened))] as const;
      const both = outcomeOf(under(['a', 'b'], () => 'ran', { waitMs: Infinity }));
      await settled();
      revoke(1);
      first.open();
      await siblings[0];
      await settled();
      expect(both.error).toMatchObject({ code: 'LOCK_LOST', key: 'b' });
      second.open();
    };
    await expect(under('a', () => under('b', work))).rejects.toMatchObject({ code: 'LOCK_LOST', key: 'b' });
  });

  it('is refused with the reason of an aborted signal', async () => {
    const { under, locker } = startLocker();
    const signal = AbortSignal.abort(new Error('the user went away'));
    await under(['a', 'b'], () => expect(under(['a', 'b'], () => 'ran', { signal })).rejects.toBe(signal.reason));
    expect(locker.live).toEqual(NOTHING);
  });

  it('acquires a key whose outer lock was released while it waited for another key', async () => {
    const { store, under, locker } = startLocker();
    const { opened, open } = gate();
    await under('a', () =>
      under('b', async (released) => {
        const sibling = under('a', () => opened);
        const both = under(['a', 'b'], ({ fencingTokens }) => fencingTokens);
        await settled();
        void released.release();
        // It does not keep the lock, which it can no longer enter.
        expect(store.givenBack).toEqual(['b']);
        open();
        expect([await both, await sibling, store.asked]).toEqual([[100, 102], undefined, ['a', 'b', 'b']]);
      }),
    );
    expect(locker.live).toEqual(NOTHING);
  });

  it('does not fail when an outer lock is lost that was released while it waited for another key', async () => {
    const { store, under, revoke, locker } = startLocker();
    const [first, second] = [gate(), gate()];
    await under('a', () =>
      under('b', async (released) => {
        const siblings = [under('a', () => first.opened), outcomeOf(under('b', () => second.opened))] as const;
        const both = outcomeOf(under(['a', 'b'], ({ fencingTokens }) => fencingTokens));
        await settled();
        void released.release();
        revoke(1);
        first.open();
        await siblings[0];
        await settled();
        expect([both, store.asked]).toEqual([{ value: [100, 102] }, ['a', 'b', 'b']]);
        second.open();
      }),
    ).catch(({ code }: LockError) => expect(code).toBe('LOCK_LOST'));
    await settled();
    expect(locker.live).toEqual(NOTHING);
  });

  it('does not run when an outer lock was lost while it waited for the missing keys, which are free at once', async () => {
    const { store, under, revoke } = startLocker();
    store.groups = (keys) => keys.map((key) => [key]);
    let ran = false;
    const outer = under('a', async () => {
      store.onAcquire = null;
      const all = outcomeOf(under(['a', 'b', 'c'], () => (ran = true), { holdAtLeastMs: 5_000 }));
      await settled();
      store.acquires[1]!.reply(granted(5_000, 5));
      await settled();
      revoke();
      store.acquires[2]!.reply(granted(5_000, 6));
      await settled();
      expect(all.error).toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect([ran, store.kept]).toEqual([false, expect.arrayContaining([['b', 0], ['c', 0]])]); // prettier-ignore
  });

  it('leaves the missing keys taken for `holdAtLeastMs` when it ends', async () => {
    const { store, under } = startLocker();
    await under('a', () => under(['a', 'b'], () => 'ran', { holdAtLeastMs: 5_000 }));
    expect(store.kept).toEqual([['b', 5_000], ['a', 0]]); // prettier-ignore
  });
});

describe('a downgrade of a lock with nested calls', () => {
  it.each<[string, string[]]>([
    ['that came before it', ['k']],
    ['that waits under another hold first', ['j', 'k']],
  ])('does not admit a nested writer %s', async (_which, keys) => {
    const { under } = startLocker();
    const { opened, open } = gate();
    const work = async (outer: Hold) => {
      const reading = under(keys[0]!, () => opened, { mode: 'read' });
      const writing = outcomeOf(under(keys, () => 'wrote'));
      await settled();
      const downgraded = outcomeOf(outer.downgrade());
      await settled();
      open();
      await reading;
      await settled();
      // Either the downgrade is refused, or the writer is: never both done.
      expect([downgraded.error, writing.error].filter(Boolean)).toMatchObject([{ code: 'LOCK_REENTRY' }]);
    };
    await (keys.length === 1 ? under('k', work) : under('j', () => under('k', work)));
  });

  it('needs no command of a lock that was granted to read', async () => {
    const { store, under } = startLocker();
    await under('k', (lock) => lock.downgrade(), { mode: 'read' });
    expect(store.renews).toEqual([]);
  });

  it('is refused while a nested writer waits', async () => {
    const { under } = startLocker();
    const { opened, open } = gate();
    await under('k', async (outer) => {
      const nested = [under('k', () => opened, { mode: 'read' }), under('k', () => undefined)];
      await settled();
      await expect(outer.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' });
      open();
      await Promise.all(nested);
    });
  });

  it('is not refused next to nested readers', async () => {
    const { under } = startLocker();
    await under('k', (outer) => under('k', () => outer.downgrade(), { mode: 'read' }));
  });

  it('is refused after the release, which waits for a nested call', async () => {
    const { under } = startLocker();
    const error = await under('k', (outer) =>
      under('k', () => {
        void outer.release();
        return rejection<LockError>(outer.downgrade());
      }),
    );
    expect(error.code).toBe('LOCK_NOT_HELD');
  });

  it('is refused next to a nested writer, also when its keys are in several groups', async () => {
    const { store, under } = startLocker();
    store.groups = (keys) => keys.map((key) => [key]);
    await under(['a', 'b'], (outer) =>
      under('a', () => expect(outer.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' })),
    );
    expect(store.renews).toEqual([]);
  });
});

/** Holds `k`, with one nested call inside until the gate opens, and another one that waits for it. */
async function startSiblings() {
  const started = startLocker();
  const { locker, under } = started;
  const { opened, open } = gate();
  let sibling: { value?: string; error?: unknown } = {};
  const outer = under('k', async () => {
    const inside = under('k', () => opened);
    sibling = outcomeOf(under('k', () => 'entered'));
    await inside;
  });
  await settled();
  const end = async () => {
    open();
    await outer;
    await settled();
    expect(locker.live).toEqual(NOTHING);
  };
  return { ...started, outer, open, end, sibling };
}

describe('a nested call that waits for its sibling', () => {
  it('enters when its sibling leaves, with no timer left', async () => {
    const { end, sibling, locker } = await startSiblings();
    expect([sibling, locker.timers.size]).toEqual([{}, 2]);
    await end();
    expect(sibling).toEqual({ value: 'entered' });
  });

  it('rejects with the loss of the outer hold', async () => {
    const { outer, open, sibling, revoke } = await startSiblings();
    revoke();
    await settled();
    open();
    expect(sibling.error).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    await expect(outer).rejects.toMatchObject({ message: (sibling.error as LockError).message });
  });
});

describe('a nested call', () => {
  it.each([
    ['write', 1],
    ['read', 2],
  ] as const)('that locks to %s runs %i of the calls inside it at a time', async (mode, most) => {
    const { under } = startLocker();
    let [inside, seen] = [0, 0];
    const work = async (): Promise<void> => {
      seen = Math.max(seen, (inside += 1));
      await settled();
      inside -= 1;
    };
    const both = () => Promise.all([under('k', work, { mode }), under('k', work, { mode })]);
    await under('k', () => under('k', both, { mode }), { mode });
    expect(seen).toBe(most);
  });

  it.each([
    ['readers', {}, 'any number of readers'],
    ['more permits', { permits: 3 }, 'up to 3'],
  ])('is refused a permit inside a hold of %s, also inside a nested one', async (_what, outer, sharers) => {
    const { underNow, enterNow } = start();
    const options = { mode: 'read', ...outer } as const;
    const refused = () => thrownBy(() => enterNow({ mode: 'read', permits: 2 }));
    const [error, nested] = await underNow(async () => [refused(), await underNow(refused, options)], options);
    expect(nested).toEqual(error);
    expect(error).toMatchObject({ code: 'LOCK_REENTRY', message: expect.stringContaining(sharers) });
  });

  it.each([
    ['refused inside a nested reader, which others may share', 'read', 'LOCK_REENTRY'],
    ['granted inside a nested writer, which is alone', 'write', undefined],
  ] as const)('that takes a permit is %s', async (_what, mode, code) => {
    const { underNow, enterNow } = start();
    const enter = (): string | undefined => {
      try {
        void enterNow({ mode: 'read', permits: 2 });
        return undefined;
      } catch (error) {
        return (error as LockError).code;
      }
    };
    expect(await underNow(() => underNow(enter, { mode }))).toBe(code);
  });

  it('is refused with `reentrant: false`, and as a run of a job', async () => {
    const { under, enterNow, locker } = start();
    await under('k', () => {
      expect(thrownBy(() => enterNow({ reentrant: false }))).toMatchObject({ code: 'LOCK_REENTRY' });
      const run = locker.request(['k'], lockOptions(), undefined, CLAIM);
      expect(thrownBy(() => enterLock(locker, run))).toMatchObject({ code: 'LOCK_REENTRY' });
    });
  });

  it('has the signal of its hold, and counts no reader of it', async () => {
    const { under } = startLocker();
    const read = await under('k', (outer) =>
      under('k', (inner) => [inner.signal === outer.signal, inner.hasSignal, outer.hasSignal]),
    );
    expect(read).toEqual([true, false, true]);
  });

  it('has the owner of its hold', async () => {
    const { under } = startLocker();
    const owners = await under('k', (outer) => under('k', (inner) => [outer.owner, inner.owner]), { owner: 'order 7' });
    expect(owners).toEqual(['order 7', 'order 7']);
  });

  it('is refused with `reentrant: false`, and a call on another key is not', async () => {
    const { under, locker } = startLocker();
    const check = (key: string) => refuseReentry(locker, locker.request([key], lockOptions({ reentrant: false })));
    await under('k', () => {
      expect(thrownBy(() => check('k'))).toMatchObject({ code: 'LOCK_REENTRY', key: 'k' });
      check('other');
    });
  });

  it('loses the hold when the outer call has released it, not before', async () => {
    const { under } = startLocker();
    const done = under('k', (outer) =>
      under('k', (inner) => {
        inner.lose('dropped');
        expect(inner.lost).toBeNull();
        void outer.release();
        inner.lose('dropped');
        expect(inner.lost).toMatchObject({ reason: 'dropped' });
      }),
    );
    await expect(done).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'dropped' });
  });

  it('is inside the holds of its chain only', async () => {
    const { under } = startLocker();
    const inside = await under(['a', 'b'], (outer) =>
      under('c', (other) => under('a', (inner) => [inner.isInside(outer), inner.isInside(other)])),
    );
    expect(inside).toEqual([true, false]);
  });

  it('is not downgraded under a writer, and not after the loss of the hold', async () => {
    const { under } = startLocker();
    const errors: unknown[] = [];
    const downgrade = async (inner: Hold): Promise<void> => {
      errors.push((await rejection<LockError>(inner.downgrade())).code);
    };
    const done = under('k', (outer) =>
      under('k', async (inner) => {
        await downgrade(inner);
        outer.lose('taken');
        await downgrade(inner);
      }),
    );
    expect((await rejection<LockError>(done)).code).toBe('LOCK_LOST');
    expect(errors).toEqual(['LOCK_REENTRY', 'LOCK_LOST']);
  });
});

describe('a nested call that is still inside when the outer work has returned', () => {
  async function startLate() {
    const started = startLocker();
    const { opened, open } = gate();
    const inside = gate();
    let [late, nested]: [Promise<string>, Hold] = [Promise.resolve(''), null!];
    const result = await started.under('k', async (outer) => {
      late = started.under('k', async (lock) => {
        nested = lock;
        inside.open();
        await opened;
        return 'late';
      });
      await inside.opened;
      expect([await outer.release(), await outer.release(), started.store.givenBack]).toEqual([true, false, []]);
      return 'outer';
    });
    return { ...started, open, late: { promise: late }, nested, result };
  }

  it('is notified of the loss of the hold', async () => {
    const { clock, open, late, nested } = await startLate();
    clock.jump(60_000);
    expect([nested.held, nested.signal.aborted]).toEqual([false, true]);
    open();
    await expect(late.promise).rejects.toMatchObject({ code: 'LOCK_LOST', result: 'late' });
  });

  it('may be re-entered, while the outer one no longer can', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let late!: Promise<string>;
    await under('k', () => {
      late = under('k', () => opened.then(() => under('k', () => 'deepest')));
    });
    open();
    expect([await late, store.asked, store.givenBack]).toEqual(['deepest', ['k'], ['k']]);
  });

  it.each([
    ['write', 'write', 'LOCK_REENTRY', ['a+b']],
    ['write', 'read', 'LOCK_REENTRY', ['a+b']],
    ['read', 'write', 'LOCK_REENTRY', ['a+b']],
    ['read', 'read', 'entered', ['a+b', 'b']],
  ] as const)('that holds to %s and asks for another key of the hold to %s: %s, since it would wait for its own end', async (held, mode, outcome, asked) => {
    const { store, under, locker } = startLocker();
    const { opened, open } = gate();
    let late!: Promise<string>;
    const inner = () => opened.then(() => under('b', () => 'entered', { mode }));
    await under(['a', 'b'], () => void (late = under('a', inner, { mode: held })), { mode: held });
    open();
    expect(await late.catch(({ code }: LockError) => code)).toBe(outcome);
    await settled();
    expect([store.asked, locker.live]).toEqual([asked, NOTHING]);
  }); // prettier-ignore

  it('may wait for another key of the hold that a sibling keeps', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let both!: Promise<string[]>;
    await under(['a', 'b'], () => {
      const sibling = under('a', () => opened.then(() => 'sibling'));
      both = Promise.all([sibling, under('c', () => opened.then(() => under('b', () => 'again')))]);
    });
    open();
    expect([await both, store.asked]).toEqual([['sibling', 'again'], ['a+b', 'c', 'b']]); // prettier-ignore
  });
});

describe('a call that is not awaited, inside a nested call for several keys', () => {
  it.each([
    ['write', { error: expect.objectContaining({ code: 'LOCK_REENTRY', key: 'a', message: expect.stringMatching(/not awaited/) }) }],
    ['read', { value: 'entered' }],
  ] as const)('that asks to %s the key that its own end keeps: %j', async (mode, expected) => {
    const { under, locker } = startLocker();
    const left = gate();
    let asked!: Promise<string>;
    const inner = () => left.opened.then(() => under('a', () => 'entered', { mode }));
    const held = under(['a', 'b'], async () => {
      await under(['a', 'b'], () => void (asked = under('b', inner, { mode })), { mode });
      left.open();
      await asked.catch(() => undefined);
    });
    await settled();
    const outcome = outcomeOf(asked);
    await held;
    expect([outcome, locker.live]).toEqual([expected, NOTHING]);
  }); // prettier-ignore
});

describe('a nested call that waits when the outer work returns', () => {
  it('acquires the lock itself, within waitMs for both waits together', async () => {
    for (const isBusy of [false, true]) {
      const { clock, store, under } = startLocker();
      const { opened, open } = gate();
      let late: { value?: number; error?: unknown } = {};
      const outer = under('k', async () => {
        void under('k', () => opened);
        late = outcomeOf(under('k', (lock) => lock.fencingToken, { waitMs: 2_000 }));
        await new Promise<void>((resolve) => clock.setTimer(resolve, 1_500));
      });
      await settled();
      if (isBusy) store.onAcquire = () => busy({ ahead: 1 });
      await clock.advance(1_500);
      await outer;
      await clock.advance(500);
      if (isBusy) expect(late.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
      else expect([late.value, store.asked, store.givenBack]).toEqual([101, ['k', 'k'], ['k']]);
      open();
      await settled();
      expect(store.givenBack.length).toBe(2);
    }
  });
});
