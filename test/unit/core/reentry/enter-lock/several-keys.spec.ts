import { type Hold } from '../../../../../lib/core/hold/hold.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const revoke = ({ store }: ReturnType<typeof startLocker>, nth: number) =>
  store.listener!.onWakeUp(store.acquires[nth]!.request.attempt, { kind: 'revoked' });

describe('a nested call for several keys', () => {
  it('acquires and releases only the keys that its chain of calls does not hold', async () => {
    const { store, under } = startLocker();
    await under('b', async (outer) => {
      await under(['c', 'b', 'a'], (lock) => {
        expect(store.asked).toEqual(['b', 'a+c']);
        expect(lock).toMatchObject({ keys: ['c', 'b', 'a'], key: 'c, b, a', mode: 'write', held: true });
        expect(lock.fencingTokens).toEqual([102, 100, 101]);
      });
      expect([store.givenBack.toSorted(), outer.held]).toEqual([['a', 'c'], true]);
    });
    expect(store.givenBack.toSorted()).toEqual(['a', 'b', 'c']);
  });

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
      await clock.advance(1_000);
      expect(both.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: 'b' });
      expect(await under('a', () => 'entered')).toBe('entered');
      open();
      await inside;
    });
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('has no listener on the outer hold after it has left', async () => {
    const started = startLocker();
    const { under } = started;
    const outer = under('a', async () => {
      const signal = await under(['a', 'b'], (both) => both.signal);
      revoke(started, 0);
      expect(signal.aborted).toBe(false);
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('does not run when an outer lock was lost while it waited for the missing keys', async () => {
    const started = startLocker();
    const { store, under } = started;
    let ran = false;
    const outer = under('a', async () => {
      store.onAcquire = null;
      const both = outcomeOf(under(['a', 'b'], () => (ran = true)));
      await settled();
      revoke(started, 0);
      store.acquires[1]!.reply({ outcome: 'granted', fencingTokens: [5], remainingMs: 3_000, serverTimeMs: 0 });
      await settled();
      expect(both.error).toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    });
    await expect(outer).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect([ran, store.givenBack.includes('b')]).toEqual([false, true]);
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

  it('is refused beside a nested writer even when its keys are in several groups', async () => {
    const { store, under } = startLocker();
    store.groups = (keys) => keys.map((key) => [key]);
    await under(['a', 'b'], (outer) =>
      under('a', () => expect(outer.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' })),
    );
    expect(store.downgrades).toEqual([]);
  });
});
