import * as fc from 'fast-check';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { READ_MS } from '../../../lib/core/timing.js';
import { FakeClock } from '../../support/core/fake-clock.js';
import { gate } from '../../support/waiting/gate.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

const setUp = () => {
  const clock = new FakeClock(0);
  return { clock, queue: new TimerQueue(clock), log: [] as unknown[] };
};

describe('the timer queue', () => {
  it('never calls back before the time, even when it has fractions', async () => {
    const { clock, queue, log } = setUp();
    queue.schedule(10.4, () => log.push(clock.now()));
    await clock.advance(10);
    expect(log).toEqual([]);
    await clock.advance(1);
    expect(log).toEqual([11]);
  });

  it('sets no timer for a call while one is armed that fires before', async () => {
    const { clock, queue, log } = setUp();
    for (let at = 100; at < 200; at += 1) queue.schedule(at, () => log.push('cancelled')).cancel();
    expect(clock.delays).toEqual([100]);
    queue.schedule(150, () => log.push(clock.now()));
    await clock.advance(200);
    expect([log, clock.delays, clock.timers]).toEqual([[150], [100, 50], 0]);
  });

  it('keeps nothing for Infinity', async () => {
    const { clock, queue } = setUp();
    const never = queue.schedule(Infinity, () => undefined);
    expect([never.at, queue.size, clock.timers]).toEqual([Infinity, 0, 0]);
    never.cancel();
    expect(queue.size).toBe(0);
  });

  it('sets a timer again when the armed one did not fire', async () => {
    const { clock, queue, log } = setUp();
    queue.schedule(10, () => log.push('first'));
    clock.dropTimers();
    clock.jump(2_000);
    queue.schedule(2_010, () => log.push('second'));
    await clock.advance(10);
    expect(log).toEqual(['first', 'second']);
  });

  it('leaves an overdue timer armed: after a block of the event loop, it fires before a new one', () => {
    const { clock, queue } = setUp();
    queue.schedule(10, () => undefined);
    clock.jump(2_000);
    queue.schedule(2_010, () => undefined);
    expect([clock.delays, clock.timers]).toEqual([[10, 0], 2]);
    clock.turn();
    expect(clock.timers).toBe(1);
  });

  it('is not delayed by calls that are scheduled while one is overdue', () => {
    const { clock, queue, log } = setUp();
    clock.jump(5_000);
    queue.schedule(1_000, () => log.push('overdue'));
    for (const at of [3_000, 5_000, 7_000]) queue.schedule(at, () => log.push(at));
    expect(clock.delays).toEqual([0]);
    clock.turn();
    expect(log).toEqual(['overdue', 3_000, 5_000]);
  });

  it.each([true, false])(
    'waits for what arrived while the event loop was blocked, if anything did: %s',
    async (did) => {
      const { clock, queue } = setUp();
      const { opened, open } = gate();
      const waiting = outcomeOf(
        queue.withTimeout(
          10,
          opened.then(() => 'an answer'),
        ),
      );
      clock.jump(100);
      clock.turn();
      if (did) open();
      await clock.advance(READ_MS);
      expect([waiting, queue.size]).toEqual([{ value: did ? 'an answer' : undefined }, 0]);
    },
  );

  it('keeps no timer for nothing once it is closed', () => {
    const { clock, queue } = setUp();
    const call = queue.schedule(5, () => undefined);
    queue.close();
    expect(clock.timers).toBe(1);
    call.cancel();
    expect(clock.timers).toBe(0);
    queue.schedule(7, () => undefined).cancel();
    expect(clock.timers).toBe(0);
    queue.schedule(7, () => undefined);
    expect(clock.timers).toBe(1);
  });

  it('waits longer than a Node timer can', async () => {
    const { clock, queue, log } = setUp();
    const at = 2 ** 31 * 3;
    queue.schedule(at, () => log.push(clock.now()));
    await clock.advance(at - 1);
    expect(log).toEqual([]);
    await clock.advance(1);
    expect(log).toEqual([at]);
    expect(Math.max(...clock.delays)).toBeLessThan(2 ** 31);
  });

  it('runs in one turn what its callbacks schedule for now, but not what they cancel, even if one throws', () => {
    const { clock, queue, log } = setUp();
    queue.schedule(1, () => {
      queue.schedule(clock.now(), () => log.push('nested'));
      second.cancel();
      throw new Error('a logger');
    });
    const second = queue.schedule(2, () => log.push('second'));
    clock.jump(10);
    expect(() => clock.turn()).toThrow('a logger');
    clock.turn();
    expect([log, queue.size]).toEqual([['nested'], 0]);
  });

  it('keeps the order when most of its entries were cancelled, and drops those', async () => {
    const { clock, queue, log } = setUp();
    const calls = Array.from({ length: 1_000 }, (_, i) => queue.schedule(1_000 - i, () => log.push(1_000 - i)));
    calls.forEach((call, i) => i % 100 !== 0 && call.cancel());
    expect(queue.size).toBe(10);
    await clock.advance(1_000);
    expect(log).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
  });
});

type Step = { schedule: number } | { cancel: number } | { pass: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ schedule: fc.integer({ min: 0, max: 200 }) }) },
  { weight: 3, arbitrary: fc.record({ cancel: fc.nat(200) }) },
  { weight: 1, arbitrary: fc.record({ pass: fc.integer({ min: 0, max: 60 }) }) },
);

describe('the timer queue, compared with a sorted list', () => {
  it('runs the same callbacks in the same order', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const { clock, queue, log } = setUp();
        let list: { id: number; at: number }[] = [];
        const calls: { cancel(): void }[] = [];
        const expected: number[] = [];
        for (const one of steps) {
          if ('schedule' in one) {
            const [id, at] = [calls.length, clock.now() + one.schedule];
            calls.push(queue.schedule(at, () => log.push(at, clock.now() >= at)));
            list.push({ id, at });
          } else if ('cancel' in one) {
            calls[one.cancel]?.cancel();
            list = list.filter(({ id }) => id !== one.cancel);
          } else {
            clock.jump(one.pass);
            clock.turn();
            const due = list.filter(({ at }) => at <= clock.now()).toSorted((a, b) => a.at - b.at);
            list = list.filter(({ at }) => at > clock.now());
            expected.push(...due.map(({ at }) => at));
          }
          expect(queue.size).toBe(list.length);
          expect(clock.timers).toBeLessThanOrEqual(1);
          if (list.length > 0) expect(clock.timers).toBe(1);
        }
        expect(log).toEqual(expected.flatMap((at) => [at, true]));
      }),
      { seed: 7 },
    );
  });
});
