import { type Carried, Wheel } from '../../../../lib/core/hold/wheel.js';
import { TimerQueue } from '../../../../lib/core/timer-queue.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

class Item implements Carried<Item> {
  bucket: Carried<Item>['bucket'] = null;
  place = 0;

  constructor(readonly name: string) {}
}

/** A wheel that records what is due, and when; `onDue` does something about it. */
function startWheel(onDue: (item: Item) => void = () => undefined) {
  const clock = new FakeClock();
  const timers = new TimerQueue(clock);
  const due: { readonly name: string; readonly at: number }[] = [];
  const wheel = new Wheel<Item>(timers, (item) => {
    due.push({ name: item.name, at: clock.now() });
    onDue(item);
  });
  const put = (name: string, delayMs: number): Item => {
    const item = new Item(name);
    wheel.put(item, clock.now() + delayMs, clock.now());
    return item;
  };
  return { clock, timers, wheel, due, put, names: () => due.map(({ name }) => name).toSorted() };
}

describe('a wheel', () => {
  it.each([0.5, 1, 7, 49, 50, 99, 333, 989.3, 9_899.3, 3_600_000])(
    'is never late for a time in %d ms, and early by 4 %% at most',
    async (delayMs) => {
      const { clock, due, put } = startWheel();
      clock.jump(0.3);
      const at = clock.now() + delayMs;
      put('a', delayMs);
      await clock.advance(delayMs + 1);
      // A timer fires in whole milliseconds.
      expect(due[0]!.at).toBeLessThan(at + 1);
      expect(due[0]!.at).toBeGreaterThanOrEqual(at - Math.max(delayMs / 25, 1));
    },
  );

  it('needs one timer for all that is due at about the same time', async () => {
    const { clock, timers, put, due } = startWheel();
    for (let i = 0; i < 1_000; i += 1) {
      put(`${i}`, 10_000);
      clock.jump(1);
    }
    expect([timers.size, clock.timers]).toEqual([expect.any(Number), 1]);
    expect(timers.size).toBeLessThanOrEqual(9);
    await clock.advance(10_000);
    expect([due.length, timers.size]).toEqual([1_000, 0]);
  });

  it('shares the timers of different delays', () => {
    const { timers, put } = startWheel();
    for (let i = 0; i < 1_000; i += 1) put(`${i}`, 6_400 + i);
    expect(timers.size).toBeLessThanOrEqual(9);
  });

  it('forgets what is removed, and has nothing scheduled when it is empty', async () => {
    const { clock, timers, wheel, put, names } = startWheel();
    const items = ['a', 'b', 'c', 'd'].map((name) => put(name, 100));
    for (const i of [0, 3]) wheel.remove(items[i]!);
    wheel.remove(items[0]!);
    expect([wheel.size, [...wheel].map(({ name }) => name).toSorted()]).toEqual([2, ['b', 'c']]);
    const late = put('late', 5_000);
    await clock.advance(200);
    expect([names(), wheel.size]).toEqual([['b', 'c'], 1]);
    wheel.remove(late);
    expect([wheel.size, timers.size]).toEqual([0, 0]);
  });

  it('knows one time only of each item: the last one', async () => {
    const { clock, wheel, put, due } = startWheel();
    const item = put('a', 100);
    wheel.put(item, clock.now() + 400, clock.now());
    expect(wheel.size).toBe(1);
    await clock.advance(300);
    expect(due).toEqual([]);
    await clock.advance(100);
    expect(due).toHaveLength(1);
  });

  it('keeps the times of the others when one of them is removed by what it calls', async () => {
    const removed: Item[] = [];
    const { clock, wheel, put, names } = startWheel(() => {
      for (const item of removed.splice(0)) wheel.remove(item);
    });
    const items = ['a', 'b', 'c', 'd', 'e'].map((name) => put(name, 100));
    removed.push(items[1]!, items[2]!);
    await clock.advance(100);
    expect([names(), wheel.size]).toEqual([['a', 'd', 'e'], 0]);
  });

  it('leaves for a later turn what is put onto it in this turn', async () => {
    const { clock, wheel, put, due } = startWheel((item) => {
      if (due.length < 5) wheel.put(item, clock.now() + 10, clock.now());
    });
    put('a', 100);
    await clock.advance(1_000);
    expect(due.map(({ at }) => at - due[0]!.at)).toEqual([0, 10, 20, 30, 40]);
  });

  it('finds all that is due in the first turn after a pause', () => {
    const { clock, put, names } = startWheel();
    for (const [name, delayMs] of Object.entries({ a: 100, b: 3_000, c: 60_000, later: 200_000 })) put(name, delayMs);
    clock.jump(100_000);
    clock.turn();
    expect(names()).toEqual(['a', 'b', 'c']);
  });

  it('calls the others even if a call throws', () => {
    let throws = true;
    const { clock, put, names } = startWheel(() => {
      if (!throws) return;
      throws = false;
      throw new Error('a logger');
    });
    for (const name of ['a', 'b', 'c']) put(name, 100);
    clock.jump(100);
    expect(() => clock.turn()).toThrow('a logger');
    clock.turn();
    expect(names()).toEqual(['a', 'b', 'c']);
  });

  it('keeps its order under a thousand random changes', async () => {
    const { clock, wheel, due } = startWheel();
    let seed = 7;
    const random = (max: number): number => (seed = (seed * 48_271) % 2_147_483_647) % max;
    const items = Array.from({ length: 50 }, (_, i) => new Item(`${i}`));
    const times = new Map<Item, number>();
    for (let change = 0; change < 1_000; change += 1) {
      const item = items[random(items.length)]!;
      if (random(3) === 0) {
        wheel.remove(item);
        times.delete(item);
      } else {
        times.set(item, clock.now() + 1 + random(500));
        wheel.put(item, times.get(item)!, clock.now());
      }
      expect(wheel.size).toBe(times.size);
      const before = due.length;
      await clock.advance(random(2));
      for (const { name } of due.slice(before)) times.delete(items[Number(name)]!);
      for (const at of times.values()) expect(at).toBeGreaterThan(clock.now() - 1);
    }
  });
});
