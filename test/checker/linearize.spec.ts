import { linearize, type Operation, type Sequential } from './linearize.js';
import { rulesOf, Story } from './story.js';

/** A counter: one operation adds to it, another one reads it. */
interface Access extends Operation {
  readonly reads?: number;
}

const COUNTER: Sequential<number, Access> = {
  start: 0,
  next(state, { reads }, time) {
    if (reads === undefined) return { state: state + 1, time };
    return reads === state ? { state, time } : undefined;
  },
};

const add = (from: number, to: number): Access => ({ from, to });
const read = (from: number, to: number, reads: number): Access => ({ from, to, reads });

describe('The search for an order', () => {
  it.each<[string, readonly Access[]]>([
    ['no operations', []],
    ['a read after the end of what it sees', [add(0, 1), read(2, 3, 1)]],
    ['reads before and after what happens at the same time', [add(0, 9), read(1, 2, 0), read(3, 4, 1)]],
    ['two at the same time, of which one is seen first', [add(0, 9), add(1, 8), read(2, 3, 1), read(10, 11, 2)]],
    ['one without an answer that never took effect', [add(0, Infinity), read(2, 3, 0)]],
    ['one without an answer that took effect late', [add(0, Infinity), read(2, 3, 0), read(4, 5, 1)]],
  ])('finds one for %s', (_what, operations) => expect(linearize(operations, COUNTER)).toBeNull());

  it.each<[string, readonly Access[], number]>([
    ['a read that does not see what had ended', [add(0, 1), read(2, 3, 0)], 3],
    ['a read that sees what had not begun', [read(0, 1, 1), add(2, 3)], 1],
    ['a read that no longer sees what was seen', [add(0, 9), read(1, 2, 1), read(3, 4, 0)], 4],
    ['one without an answer that was seen, and is gone', [add(0, Infinity), read(2, 3, 1), read(4, 5, 0)], 5],
  ])('finds none for %s', (_what, operations, to) => {
    expect(linearize(operations, COUNTER)).toMatchObject({ operation: { to }, isComplete: true });
  });

  it('begins a new window where no operations overlap, so that a long history takes no more steps', () => {
    const many = Array.from({ length: 2_000 }, (_, i) => [add(10 * i, 10 * i + 5), read(10 * i + 1, 10 * i + 6, i)]);
    expect(linearize(many.flat(), COUNTER, 10)).toBeNull();
  });

  describe('forgets one without an answer that can no longer take effect', () => {
    /** Each writes what it has read, counted up. */
    const register: Sequential<number, Access> = {
      start: 0,
      next: (state, { reads }, time) => (reads === state ? { state: state + 1, time } : undefined),
      isPast: (state, { reads }) => reads! < state,
    };
    const after = (start: number) => Array.from({ length: 2_000 }, (_, i) => read(10 * i + 2, 10 * i + 5, start + i));

    it.each([
      ['took effect', 1],
      ['never did', 0],
    ])('if it %s', (_what, start) => {
      expect(linearize([read(0, Infinity, 0), ...after(start)], register, 10)).toBeNull();
    });

    it('and finds a write that was lost later', () => {
      const lost = [...after(1), read(30_000, 30_001, 2_000)];
      expect(linearize([read(0, Infinity, 0), ...lost], register, 10)).toMatchObject({ isComplete: true });
    });
  });

  it('gives up after a number of steps, and reports that', () => {
    const many = Array.from({ length: 20 }, (_, i) => add(i / 100, 10));
    expect(linearize([...many, read(0, 10, 99)], COUNTER, 500)).toMatchObject({ isComplete: false });
  });
});

describe('The order of grants', () => {
  it('finds a grant that no moment of its call explains, although each pair of holders has an order', () => {
    const permits = { keys: ['p'], mode: 'read' as const, permits: 2 };
    const story = (take: number) =>
      new Story()
        .held(100, 200, 'w0.1:1', 10, permits)
        .call(90, 'w1.1:1', { ...permits, take })
        .granted(150, 'w1.1:1', 11)
        .released(300, 'w1.1:1');
    expect(rulesOf(story(1))).toEqual([]);
    expect(rulesOf(story(2))).toEqual(['permits']);
  });

  it('accepts calls without an answer: of them, nothing is known to exclude others', () => {
    const story = new Story()
      .call(90, 'w0.1:1')
      .of(95, 'w0.1:1', 'failed', { code: 'LOCK_STORE' })
      .call(91, 'w1.1:1')
      .nemesis(95, 'exit', { of: 'w1.1', code: null, signal: 'SIGKILL' })
      .held(100, 200, 'w2.1:1', 10);
    expect(rulesOf(story)).toEqual([]);
  });
});

describe('The order of fenced writes', () => {
  const first = (story = new Story()) => story.held(100, 200, 'w0.1:1', 10).held(300, 400, 'w1.1:1', 11);
  const totals = (counted: number) => ({
    key: 'a',
    confirmed: 2,
    counted,
    refused: 0,
    plainConfirmed: 0,
    plainCounted: 0,
  });

  it('finds a write that was lost', () => {
    expect(rulesOf(first().counts(150, 'w0.1:1', 0).counts(350, 'w1.1:1', 1))).toEqual([]);
    expect(rulesOf(first().counts(150, 'w0.1:1', 0).counts(350, 'w1.1:1', 0))).toEqual(['fenced-writes']);
  });

  it('finds a write that the register does not have at the end', () => {
    const story = (counted: number) => first().counts(150, 'w0.1:1', 0).nemesis(500, 'resource', totals(counted));
    expect(rulesOf(story(1))).toEqual([]);
    expect(rulesOf(story(0))).toEqual(['fenced-writes']);
  });

  it('takes each write of a leader for itself', () => {
    const story = (was: number) =>
      new Story().led(100, 500, 'w0.1:1', 10).counts(150, 'w0.1:1', 0).counts(200, 'w0.1:1', was);
    expect(rulesOf(story(1))).toEqual([]);
    expect(rulesOf(story(0))).toEqual(['fenced-writes']);
  });

  it('takes no refused write for one, and accepts one without an answer, whether it came or not', () => {
    const story = (isAccepted: boolean | null, was: number) =>
      rulesOf(first().counts(150, 'w0.1:1', 0, isAccepted).counts(350, 'w1.1:1', was));
    expect([story(false, 0), story(null, 0), story(null, 1)]).toEqual([[], [], []]);
    expect([story(false, 1), story(null, 2)]).toEqual([['fenced-writes'], ['fenced-writes']]);
  });
});
