import { Story, rulesOf } from './story.js';

/** The first call holds the lock from 100 on, and transfers it at 200; the next one adopts it at 230, and releases it at 300. */
const held = (story = new Story()) => story.call(99, 'w0.1:1').granted(100, 'w0.1:1', 10).transferred(200, 'w0.1:1');
const adopted = (story: Story, from: number, to: number, op: string, token = 10) =>
  story
    .adopts(from - 10, op, 'w0.1:1')
    .granted(from, op, token, to - from + 100)
    .released(to, op);
const refused = (story: Story, calledAt: number, failedAt: number, code = 'LOCK_LOST') =>
  story.adopts(calledAt, 'w2.1:1', 'w0.1:1').of(failedAt, 'w2.1:1', 'failed', { code });
const fault = (t: number, forgets?: 'all') =>
  new Story()
    .nemesis(t, 'fault', { id: 1, kind: 'server stopped', ...(forgets && { forgets }) })
    .nemesis(t + 5, 'over', { id: 1 });

describe('The checker of chaos: locks that change hands', () => {
  it('finds nothing if one call adopts the lock, and others get it afterwards', () => {
    expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1').held(310, 400, 'w2.1:1', 11))).toEqual([]);
  });

  it('finds nothing if nobody adopts it, and others get it after its lease', () => {
    expect(rulesOf(held().held(1_201, 1_300, 'w2.1:1', 11))).toEqual([]);
  });

  describe('exclusion', () => {
    it('is broken by a grant on the way to the next process, also if the first one has died', () => {
      const between = () => held().held(210, 220, 'w2.1:1', 11);
      expect(rulesOf(adopted(between(), 230, 300, 'w1.1:1'))).toEqual(['exclusion']);
      const died = between().nemesis(205, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' });
      expect(rulesOf(died)).toEqual(['exclusion']);
    });

    it('is broken by a grant beside the process that has adopted it', () => {
      expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1').held(240, 280, 'w2.1:1', 11))).toContain('exclusion');
    });

    it('is not broken after an adoption that failed, and may have given the lock back', () => {
      expect(rulesOf(refused(held(), 250, 900, 'LOCK_STORE').held(400, 500, 'w3.1:1', 11))).toEqual([]);
      expect(rulesOf(refused(held(), 350, 900, 'LOCK_STORE').held(300, 400, 'w3.1:1', 11))).toEqual(['exclusion']);
    });

    it('is not broken if what the transfer left behind was lost', () => {
      const lost = held(fault(205, 'all')).held(220, 300, 'w2.1:1', 11);
      expect(rulesOf(lost)).toEqual([]);
    });
  });

  it('finds a fencing token that is not the same', () => {
    expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1', 11))).toEqual(['transfers']);
  });

  it('finds a token of a later grant that is not greater', () => {
    expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1').held(310, 400, 'w2.1:1', 10))).toEqual(['fencing']);
  });

  it('finds a lock that is adopted although it was not transferred', () => {
    expect(rulesOf(adopted(new Story().held(100, 200, 'w0.1:1', 10), 230, 300, 'w1.1:1'))).toEqual(['transfers']);
  });

  describe('the first handle', () => {
    it('is broken if it holds or releases the lock afterwards', () => {
      expect(rulesOf(held().of(220, 'w0.1:1', 'spent', { isHeld: true }))).toEqual(['transfers']);
    });

    it('is broken if it is told of a loss afterwards, but not if it was told of none', () => {
      expect(rulesOf(held().of(220, 'w0.1:1', 'lost', { reason: 'taken' }))).toEqual(['transfers']);
      expect(rulesOf(held())).toEqual([]);
    });
  });

  describe('a text', () => {
    const twice = (story = new Story()) => adopted(adopted(held(story), 230, 300, 'w1.1:1'), 310, 400, 'w2.1:1');

    it('is broken if it works twice, unless data was lost in between', () => {
      expect(rulesOf(twice())).toEqual(['transfers']);
      expect(rulesOf(twice(fault(250, 'all')))).toEqual([]);
      expect(rulesOf(twice(fault(250)))).toEqual(['transfers']);
    });

    it('is broken if it works after its lease, unless a fault may have kept a command back', () => {
      const late = (story = new Story()) => adopted(held(story), 2_500, 2_600, 'w1.1:1');
      expect(rulesOf(late())).toEqual(['transfers']);
      expect(rulesOf(late(fault(1_000)))).toEqual([]);
    });

    it('is broken if it does not work within its lease', () => {
      expect(rulesOf(refused(held(), 300, 350))).toEqual(['transfers']);
    });

    it.each([
      ['after its lease', refused(held(), 1_150, 1_250)],
      ['if Redis did not answer', refused(held(), 300, 350, 'LOCK_STORE')],
      ['when another process has it', adopted(refused(held(), 300, 350), 330, 400, 'w1.1:1')],
      ['after a fault', refused(held(fault(210)), 300, 350)],
    ])('need not work %s', (_when, story) => {
      expect(rulesOf(story)).toEqual([]);
    });
  });

  it('finds a call that was passed, although a lock of its line was transferred before', () => {
    const story = new Story()
      .call(50, 'w1.1:0')
      .granted(60, 'w1.1:0', 1_000, 20)
      .transferred(70, 'w1.1:0', 20)
      .held(100, 3_000, 'w0.1:1', 2_000)
      .call(200, 'w1.1:1')
      .call(1_000, 'w2.1:1')
      .granted(3_010, 'w2.1:1', 3_000)
      .released(3_050, 'w2.1:1')
      .granted(3_060, 'w1.1:1', 4_000)
      .released(3_070, 'w1.1:1');
    expect(rulesOf(story)).toEqual(['first-in-first-out']);
  });

  it('finds a lock that is not granted after its lease, when it was transferred and not adopted', () => {
    const waits = held()
      .call(150, 'w1.1:1', { waitMs: 8_000 })
      .of(8_100, 'w1.1:1', 'failed', { code: 'LOCK_WAIT_TIMEOUT' })
      .nemesis(9_000, 'stopping', {});
    expect(rulesOf(waits)).toEqual(['no-lost-wake-up']);
  });

  it('takes the hold of an owner for one that others may join until it is over', () => {
    const story = (t: number) =>
      new Story()
        .call(99, 'w0.1:1', { owner: 'alice' })
        .granted(100, 'w0.1:1', 10)
        .transferred(200, 'w0.1:1')
        .held(t, t + 10, 'w2.1:1', 10, { owner: 'alice' });
    expect(rulesOf(story(700))).toEqual([]);
    expect(rulesOf(story(3_000))).toEqual(['fencing']);
  });
});
