import { History } from './history.js';
import { lossTold } from './losses.js';
import { type Fields, rulesOf, Story } from './story.js';

/** All kinds of calls, and nothing wrong. */
function cleanStory(): Story {
  return new Story()
    .held(100, 200, 'w0.1:1', 10)
    .held(201, 300, 'w1.1:1', 11)
    .held(310, 500, 'w0.1:2', 12, { mode: 'read' })
    .held(320, 510, 'w1.1:2', 13, { mode: 'read' })
    .held(520, 600, 'w0.1:3', 14, { owner: 'alice' })
    .held(530, 610, 'w1.1:3', 14, { owner: 'alice' })
    .held(100, 200, 'w0.1:4', 10, { keys: ['p'], mode: 'read', permits: 2 })
    .held(110, 210, 'w1.1:4', 11, { keys: ['p'], mode: 'read', permits: 2 })
    .held(205, 290, 'w0.1:5', 12, { keys: ['p'], mode: 'read', permits: 2 })
    .held(1_000, 1_010, 'w0.1:6', 20, { keys: ['job'], fire: 1_000, waitMs: 0 })
    .call(1_000, 'w1.1:6', { keys: ['job'], fire: 1_000, waitMs: 0 })
    .of(1_020, 'w1.1:6', 'failed', { code: 'skipped' })
    .call(1_100, 'w0.1:7')
    .granted(1_110, 'w0.1:7', 30)
    .of(1_150, 'w0.1:7', 'reads', {})
    .held(1_160, 1_200, 'w1.1:7', 31, { mode: 'read' })
    .of(1_170, 'w0.1:7', 'nested', { token: 30 })
    .released(1_250, 'w0.1:7')
    .counts(150, 'w0.1:1', 0)
    .counts(250, 'w1.1:1', 1)
    .nemesis(1_300, 'resource', { key: 'a', confirmed: 2, counted: 2, refused: 0, plainConfirmed: 4, plainCounted: 4 });
}

describe('The checker', () => {
  it('finds nothing in a history that keeps all rules', () => {
    expect(rulesOf(cleanStory())).toEqual([]);
  });

  it('finds more holders than permits', () => {
    const permits = { keys: ['p'], mode: 'read' as const, permits: 2 };
    const story = new Story()
      .held(100, 200, 'w0.1:1', 10, permits)
      .held(110, 200, 'w1.1:1', 11, permits)
      .held(120, 200, 'w2.1:1', 12, permits);
    expect(rulesOf(story)).toEqual(['permits']);
  });

  it('counts the permits that each call takes, and only those of earlier grants', () => {
    const permits = { keys: ['p'], mode: 'read' as const, permits: 3 };
    const both = (take: number, token: number) =>
      new Story()
        .held(100, 200, 'w0.1:1', 10, { ...permits, take: 2 })
        .held(110, 200, 'w1.1:1', token, { ...permits, take });
    expect(rulesOf(both(1, 11))).toEqual([]);
    expect(rulesOf(both(2, 11))).toEqual(['permits']);
  });

  describe('fencing', () => {
    it('finds tokens that contradict the order of two holders, although both calls began early', () => {
      const story = (second: number) =>
        new Story()
          .call(90, 'w0.1:1')
          .call(91, 'w1.1:1')
          .granted(100, 'w0.1:1', 10)
          .released(150, 'w0.1:1')
          .granted(160, 'w1.1:1', second)
          .released(170, 'w1.1:1');
      expect(rulesOf(story(11))).toEqual([]);
      expect(rulesOf(story(9))).toEqual(['fencing']);
    });

    it('lets an owner enter the hold of a dead call of it that was granted the place it had left', () => {
      const enters = (t: number) =>
        new Story()
          .call(90, 'w0.1:1', { owner: 'alice', leaseMs: 1_000 })
          .nemesis(100, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' })
          .held(900, 910, 'w1.1:1', 10, { owner: 'alice' })
          .held(t, t + 10, 'w2.1:1', 10, { owner: 'alice' });
      expect(rulesOf(enters(1_900))).toEqual([]);
      expect(rulesOf(enters(2_200))).toEqual(['fencing']);
    });

    it('finds a reader with the token of another one, unless they are of one owner', () => {
      const beside = (owner: string) =>
        new Story()
          .call(90, 'w0.1:1', { mode: 'read', owner: 'alice' })
          .call(91, 'w1.1:1', { mode: 'read', owner })
          .granted(100, 'w0.1:1', 10)
          .granted(100, 'w1.1:1', 10)
          .released(150, 'w0.1:1')
          .released(150, 'w1.1:1');
      expect(rulesOf(beside('alice'))).toEqual([]);
      expect(rulesOf(beside('bob'))).toEqual(['fencing']);
    });

    it.each([
      ['before', [120, 500]],
      ['after', [500, 120]],
    ])('lets a token fall only if the clock is set back shortly %s a loss of data', (_which, [step, loss]) => {
      const fell = (stepsBackMs: number) =>
        new Story()
          .held(100, 110, 'w0.1:1', 20)
          .nemesis(step!, 'fault', { id: 1, kind: 'clock steps back', stepsBackMs })
          .nemesis(step! + 1, 'over', { id: 1 })
          .nemesis(loss!, 'fault', { id: 2, kind: 'FLUSHALL', forgets: 'all' })
          .nemesis(loss! + 1, 'over', { id: 2 })
          .held(600, 610, 'w1.1:1', 10);
      expect(rulesOf(fell(600))).toEqual([]);
      expect(rulesOf(fell(200))).toEqual(['fencing']);
    });

    it.each([
      ['equal to', 10],
      ['smaller than', 9],
    ])('finds a token that is %s that of an earlier grant', (_which, token) => {
      expect(rulesOf(new Story().held(100, 200, 'w0.1:1', 10).held(300, 400, 'w1.1:1', token))).toEqual(['fencing']);
    });

    it('also finds it after a loss of data', () => {
      const story = new Story()
        .nemesis(250, 'fault', { id: 1, kind: 'FLUSHALL', forgets: 'all' })
        .held(100, 200, 'w0.1:1', 10)
        .held(300, 400, 'w1.1:1', 1);
      expect(rulesOf(story)).toEqual(['fencing']);
    });

    it('lets readers of a quorum have equal tokens, but no writer', () => {
      const after = (mode: 'read' | 'write') =>
        new Story().held(100, 200, 'w0.1:1', 10, { mode: 'read' }).held(300, 400, 'w1.1:1', 10, { mode });
      expect(rulesOf(after('read'), true)).toEqual([]);
      expect(rulesOf(after('write'), true)).toEqual(['fencing']);
      expect(rulesOf(after('read'))).toEqual(['fencing']);
    });

    it('takes the calls of one owner for one grant, but not those of others with its token', () => {
      const after = (owner: string, until: number) =>
        new Story().held(100, until, 'w0.1:1', 10, { owner: 'alice' }).held(530, 540, 'w2.1:1', 10, { owner });
      expect(rulesOf(after('alice', 550))).toEqual([]);
      expect(rulesOf(after('alice', 500))).toEqual(['fencing']);
      expect(rulesOf(after('bob', 500))).toEqual(['fencing']);
    });

    it('knows that a hold whose release had no answer lasts until its lease ends, and longer if the clock steps back', () => {
      const after = (wasHeld: boolean, stepsBackMs: number) =>
        new Story()
          .call(99, 'w0.1:1', { owner: 'alice' })
          .granted(100, 'w0.1:1', 10)
          .of(500, 'w0.1:1', 'releasing', {})
          .of(501, 'w0.1:1', 'released', { wasHeld })
          .nemesis(900, 'fault', { id: 1, kind: 'clock steps back', stepsBackMs })
          .nemesis(901, 'over', { id: 1 })
          .held(2_000, 2_100, 'w1.1:1', 10, { owner: 'alice' });
      expect(rulesOf(after(false, 600))).toEqual([]);
      expect(rulesOf(after(false, 400))).toEqual(['fencing']);
      expect(rulesOf(after(true, 600))).toEqual(['fencing']);
    });

    it('finds a nested call with its own token', () => {
      const nested = new Story().held(100, 200, 'w0.1:1', 10).of(150, 'w0.1:1', 'nested', { token: 11 });
      expect(rulesOf(nested)).toEqual(['reentry']);
    });
  });

  describe('the report of a loss', () => {
    const expired = (story: Story) => story.call(99, 'w0.1:1').granted(100, 'w0.1:1', 10, 50);

    it('is missed when the signal is aborted after the next grant, or never', () => {
      const late = expired(new Story()).held(200, 700, 'w1.1:1', 11).of(400, 'w0.1:1', 'lost', { reason: 'expired' });
      expect(rulesOf(late)).toEqual(['loss-told']);
      const never = expired(new Story()).held(200, 700, 'w1.1:1', 11).released(600, 'w0.1:1');
      expect(rulesOf(never)).toEqual(['loss-told']);
    });

    it('is not due while the process stands still', () => {
      const still = (to: number) =>
        expired(new Story())
          .process(to, 'w0.1', 'lag', { from: 120 })
          .held(200, 700, 'w1.1:1', 11)
          .of(610, 'w0.1:1', 'lost', { reason: 'expired' });
      expect(rulesOf(still(605))).toEqual([]);
      expect(rulesOf(still(300))).toEqual(['loss-told']);
    });

    it('may be late by the time for which the machine slept, also before the grant', () => {
      const story = new Story()
        .call(100, 'w0.1:1')
        .granted(400, 'w0.1:1', 10, 50)
        .held(450, 900, 'w1.1:1', 11)
        .of(700, 'w0.1:1', 'lost', { reason: 'expired' });
      const history = History.of(story.events);
      expect(lossTold(history)).toMatchObject([{ rule: 'loss-told' }]);
      history.process('w0.1').sleeps.push({ from: 110, to: 399 });
      expect(lossTold(history)).toEqual([]);
    });

    it('is due a lease after the loss of data to the holder of before it, also when that one was granted last', () => {
      // The data is lost while the address of the server moves. The first call holds the lock at the new server.
      const moved = (oldEndsAt: number) =>
        new Story()
          .nemesis(100, 'fault', { id: 1, kind: 'address moves', forgets: 'all' })
          .held(200, 3_000, 'w0.1:1', 10)
          .held(300, oldEndsAt, 'w1.1:1', 11)
          .nemesis(400, 'over', { id: 1 });
      expect(rulesOf(moved(310))).toEqual([]);
      expect(rulesOf(moved(1_300))).toEqual([]);
      expect(rulesOf(moved(1_900))).toEqual(['exclusion', 'loss-told']);
    });
  });

  describe('fires', () => {
    const twice = () =>
      new Story()
        .held(100, 110, 'w0.1:1', 10, { keys: ['job'], fire: 1, waitMs: 0 })
        .held(200, 210, 'w1.1:1', 11, { keys: ['job'], fire: 1, waitMs: 0 });

    it('finds two runs of one fire', () => {
      expect(rulesOf(twice())).toEqual(['one-run-per-fire']);
    });

    it('excuses them when the record was lost in between', () => {
      const lost = (t: number) =>
        twice()
          .nemesis(t, 'fault', { id: 1, kind: 'FLUSHALL', forgets: 'all' })
          .nemesis(t + 5, 'over', { id: 1 });
      expect(rulesOf(lost(150))).toEqual([]);
      expect(rulesOf(lost(50))).toEqual(['one-run-per-fire']);
    });
  });

  describe('time limits', () => {
    it('finds a call that takes longer than its wait, and one that never settles', () => {
      const late = new Story().call(0, 'w0.1:1', { waitMs: 2_000 }).of(5_000, 'w0.1:1', 'failed', { code: 'X' });
      expect(rulesOf(late)).toContain('calls-settle');
      const never = new Story().call(0, 'w0.1:1', { waitMs: 2_000 }).nemesis(9_000, 'stuck', { of: 'w0.1' });
      expect(rulesOf(never)).toContain('calls-settle');
      const killed = new Story()
        .call(0, 'w0.1:1', { waitMs: 2_000 })
        .nemesis(1_000, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' })
        .nemesis(9_000, 'stopping', {});
      expect(rulesOf(killed)).toEqual([]);
    });

    it('finds a release that takes too long, unless its process stood still', () => {
      const slow = () =>
        new Story()
          .held(100, 200, 'w0.1:1', 10)
          .of(200, 'w0.1:1', 'asks', { what: 'release', withinMs: 1_000 })
          .of(4_000, 'w0.1:1', 'answered', { what: 'release' });
      expect(rulesOf(slow())).toEqual(['calls-settle']);
      const stopped = slow().nemesis(300, 'suspended', { of: 'w0.1' }).nemesis(3_900, 'resumed', { of: 'w0.1' });
      expect(rulesOf(stopped)).toEqual([]);
    });
  });

  describe('wake-ups', () => {
    const waits = (story = new Story()) =>
      story
        .held(100, 200, 'w0.1:1', 10)
        .call(150, 'w1.1:1', { waitMs: 6_000 })
        .of(5_900, 'w1.1:1', 'failed', { code: 'LOCK_WAIT_TIMEOUT' })
        .nemesis(9_000, 'stopping', {});

    it('finds a free lock that a live waiter is not granted', () => {
      expect(rulesOf(waits())).toEqual(['no-lost-wake-up']);
    });

    it('finds it when one waiter follows another', () => {
      const story = new Story().held(100, 200, 'w0.1:1', 10).nemesis(9_000, 'stopping', {});
      for (let i = 0; i < 6; i++) {
        story.call(150 + 700 * i, `w1.1:${i}`, { waitMs: 800 });
        story.of(950 + 700 * i, `w1.1:${i}`, 'failed', { code: 'LOCK_WAIT_TIMEOUT' });
      }
      expect(rulesOf(story)).toEqual(['no-lost-wake-up']);
    });

    it('excuses a fault and the recovery from it, a waiter that is stopped, and a hold that no process has learned of', () => {
      const fault = new Story()
        .nemesis(180, 'fault', { id: 1, kind: 'server stopped' })
        .nemesis(1_500, 'over', { id: 1 });
      expect(rulesOf(waits(fault))).toEqual([]);
      const stopped = new Story().nemesis(250, 'suspended', { of: 'w1.1' }).nemesis(5_000, 'resumed', { of: 'w1.1' });
      expect(rulesOf(waits(stopped))).toEqual([]);
      const dead = new Story()
        .call(210, 'w2.1:1', { leaseMs: 3_000 })
        .nemesis(220, 'exit', { of: 'w2.1', code: null, signal: 'SIGKILL' });
      expect(rulesOf(waits(dead))).toEqual([]);
    });
  });

  describe('the order of waiters', () => {
    const passed = (fair = true, story = new Story(), isNested = false) =>
      story
        .held(100, 3_000, 'w0.1:1', 10)
        .call(200, 'w1.1:1', { isNested })
        .call(1_000, 'w2.1:1', { fair })
        .granted(3_010, 'w2.1:1', 11)
        .released(3_050, 'w2.1:1')
        .granted(3_060, 'w1.1:1', 12)
        .released(3_070, 'w1.1:1');

    it('is broken by a call that passes one which has waited', () => {
      expect(rulesOf(passed())).toEqual(['first-in-first-out']);
    });

    it('binds no call that is not fair, none that may have waited in a hold of its chain first, and no quorum', () => {
      expect(rulesOf(passed(false))).toEqual([]);
      expect(rulesOf(passed(true, new Story(), true))).toEqual([]);
      expect(rulesOf(passed(), true)).toEqual([]);
    });

    describe('of a process that hands its locks on', () => {
      const first = (later: Partial<Fields<'call'>> = {}, other: Partial<Fields<'call'>> = {}) =>
        new Story()
          .held(100, 3_000, 'w0.1:1', 1_000, { leaseMs: 300 })
          .call(200, 'w1.1:1', other)
          .call(1_000, 'w2.1:1', later)
          .call(1_100, 'w2.1:2', later)
          .call(2_000, 'w1.1:2', other);
      const serve = (story: Story, t: number, op: string, token: number) =>
        story.granted(t, op, token).released(t + 5, op);

      it('serves its calls in a row, also those that came later than the calls of others', () => {
        const story = serve(serve(first(), 3_010, 'w1.1:1', 2_000), 3_020, 'w1.1:2', 2_001);
        expect(rulesOf(serve(serve(story, 3_030, 'w2.1:1', 3_000), 3_040, 'w2.1:2', 3_001))).toEqual([]);
      });

      it('is broken by a call that passes another of its line', () => {
        const story = serve(serve(first(), 3_010, 'w1.1:2', 2_000), 3_020, 'w1.1:1', 2_001);
        expect(rulesOf(serve(serve(story, 3_030, 'w2.1:1', 3_000), 3_040, 'w2.1:2', 3_001))).toEqual([
          'first-in-first-out',
        ]);
      });

      it('is broken by a second turn before the turn of others, who had waited long', () => {
        const story = serve(serve(first(), 3_010, 'w1.1:1', 2_000), 3_600, 'w1.1:2', 3_000);
        // Its place was taken after the first turn.
        const late = serve(serve(story, 3_630, 'w2.1:1', 4_000), 3_640, 'w2.1:2', 4_001);
        expect(rulesOf(late)).toEqual(['first-in-first-out', 'first-in-first-out']);
      });

      it('has a new place after each of its turns', () => {
        const story = serve(serve(first(), 3_010, 'w1.1:1', 2_000), 3_020, 'w2.1:1', 3_000);
        expect(rulesOf(serve(serve(story, 3_030, 'w1.1:2', 4_000), 3_040, 'w2.1:2', 5_000))).toEqual([]);
      });

      it('has no place while a call of an owner ahead of it asks', () => {
        const waits = (askedAt: number) => {
          const story = first().call(askedAt, 'w3.1:1', { owner: 'bob' }).call(300, 'w3.1:2');
          const others = serve(serve(story, 3_010, 'w3.1:1', 2_000), 3_020, 'w1.1:1', 3_000);
          const turn = serve(serve(others, 3_025, 'w1.1:2', 3_001), 3_030, 'w2.1:1', 4_000);
          return rulesOf(serve(serve(turn, 3_035, 'w2.1:2', 4_001), 3_040, 'w3.1:2', 5_000));
        };
        expect(waits(250)).toEqual([]);
        expect(waits(350)).toEqual(['first-in-first-out', 'first-in-first-out']);
      });

      it.each([
        ['leases of another length', { leaseMs: 500 }],
        ["`fair: 'strict'`", { fair: 'strict' as const }],
      ])('serves calls with %s for themselves', (_what, asked) => {
        const story = first().call(2_100, 'w1.1:3', asked);
        const passes = serve(serve(story, 3_010, 'w1.1:1', 2_000), 3_020, 'w1.1:3', 3_000);
        expect(rulesOf(serve(serve(passes, 3_030, 'w2.1:1', 4_000), 3_040, 'w2.1:2', 4_001))).toContain(
          'first-in-first-out',
        );
      });
    });

    it('is not kept for a process that stands still, or whose connection a fault concerns', () => {
      const stopped = new Story().nemesis(1_500, 'suspended', { of: 'w1.1' }).nemesis(3_020, 'resumed', { of: 'w1.1' });
      expect(rulesOf(passed(true, stopped))).toEqual([]);
      const cut = new Story()
        .nemesis(1_500, 'fault', { id: 1, kind: 'connections cut', worker: 'w1' })
        .nemesis(1_600, 'over', { id: 1 });
      expect(rulesOf(passed(true, cut))).toEqual([]);
    });
  });

  it('takes off the time in which the networks stood still', () => {
    const slow = new Story()
      .held(100, 200, 'w0.1:1', 10)
      .of(200, 'w0.1:1', 'asks', { what: 'release', withinMs: 1_000 })
      .of(4_000, 'w0.1:1', 'answered', { what: 'release' })
      .nemesis(3_900, 'lag', { from: 300 });
    expect(rulesOf(slow)).toEqual([]);
  });

  it('finds a process that is no longer granted anything, although nothing disturbs it', () => {
    const story = () => new Story().process(0, 'w0.1', 'ready', {}).held(100, 200, 'w0.1:1', 10);
    expect(rulesOf(story().nemesis(20_000, 'stopping', {}))).toEqual(['recovery']);
    const disturbed = story()
      .nemesis(1_000, 'fault', { id: 1, kind: 'server stopped' })
      .nemesis(8_000, 'over', { id: 1 })
      .nemesis(20_000, 'stopping', {});
    expect(rulesOf(disturbed)).toEqual([]);
  });

  it('takes neither a fire nor an election for a grant to a call', () => {
    const story = new Story().process(0, 'w0.1', 'ready', {}).held(100, 200, 'w0.1:1', 10);
    for (let i = 0; i < 10; i += 1) {
      const t = 2_000 * i + 300;
      story.held(t, t + 10, `w0.1:job:${i}`, 10 + i, { keys: ['job'], fire: t, waitMs: 0 });
      story.led(t, t + 10, `w0.1:lead:${i}`, 10 + i);
    }
    expect(rulesOf(story.nemesis(20_000, 'stopping', {}))).toEqual(['recovery']);
  });

  describe('the end of a run', () => {
    it.each([
      ['a process that does not end', new Story().nemesis(9, 'stuck', { of: 'w0.1' })],
      ['a timer', new Story().process(9, 'w0.1', 'closed', { left: ['Timeout'] })],
      ['a lock', new Story().nemesis(9, 'left', { what: 'still held: a' })],
    ])('finds %s that is left', (_what, story) => {
      expect(rulesOf(story)).toEqual(['nothing-left']);
    });

    it.each([
      ['an unhandled rejection', new Story().process(9, 'w0.1', 'unhandled', { text: 'Error' })],
      ['a crash', new Story().nemesis(9, 'exit', { of: 'w0.1', code: 1, signal: null })],
    ])('finds %s', (_what, story) => {
      expect(rulesOf(story)).toEqual(['no-stray-errors']);
    });
  });
});

describe('The checker: exclusion', () => {
  const twoWriters = () => new Story().held(100, 200, 'w0.1:1', 10).call(99, 'w1.1:1').granted(150, 'w1.1:1', 11);

  it('finds two writers', () => {
    expect(rulesOf(twoWriters())).toContain('exclusion');
  });

  it.each([
    [8, ['exclusion']],
    [0, []],
  ])('finds two writers among more readers than can be ordered, when their holds overlap by %i ms', (ms, rules) => {
    const story = new Story();
    const readers = Array.from({ length: 30 }, (_, i) => `w${i}.1:1`);
    const permits = { mode: 'read', permits: 2 } as const;
    for (const op of readers) story.call(0, op, permits);
    story.call(0, 'w98.1:1').call(0, 'w99.1:1');
    for (const [i, op] of readers.entries()) story.granted(100 + 10 * i, op, 10 + i).released(109 + 10 * i, op);
    story.granted(500, 'w98.1:1', 98).released(510, 'w98.1:1');
    story.granted(512 - ms, 'w99.1:1', 99).released(530, 'w99.1:1');
    expect(rulesOf(story).filter((rule) => rule === 'exclusion')).toEqual(rules);
  });

  it('finds a reader together with a writer, and a second writer among owners of another name', () => {
    const reader = new Story().held(100, 200, 'w0.1:1', 10).held(150, 250, 'w1.1:1', 11, { mode: 'read' });
    expect(rulesOf(reader)).toContain('exclusion');
    const owners = new Story()
      .held(100, 200, 'w0.1:1', 10, { owner: 'alice' })
      .held(150, 250, 'w1.1:1', 11, { owner: 'bob' });
    expect(rulesOf(owners)).toContain('exclusion');
  });

  it('finds a writer together with a hold that was downgraded, and a reader before the downgrade', () => {
    const writer = new Story().held(100, 200, 'w0.1:1', 10).of(120, 'w0.1:1', 'reads', {}).held(150, 250, 'w1.1:1', 11);
    expect(rulesOf(writer)).toContain('exclusion');
    const reader = new Story()
      .held(100, 200, 'w0.1:1', 10)
      .of(180, 'w0.1:1', 'reads', {})
      .held(150, 250, 'w1.1:1', 11, { mode: 'read' });
    expect(rulesOf(reader)).toContain('exclusion');
  });

  it('does not excuse a process that was stopped, since its proof would show it', () => {
    const stopped = twoWriters().nemesis(110, 'suspended', { of: 'w0.1' }).nemesis(400, 'resumed', { of: 'w0.1' });
    expect(rulesOf(stopped)).toContain('exclusion');
  });

  it('takes the end of the proof for the end of the belief', () => {
    const late = new Story()
      .call(99, 'w0.1:1')
      .granted(100, 'w0.1:1', 10, 50)
      .of(150, 'w0.1:1', 'lost', { reason: 'expired' })
      .held(151, 200, 'w1.1:1', 11)
      .released(300, 'w0.1:1');
    expect(rulesOf(late)).toEqual([]);
  });

  it('finds a renewal after the grant to another', () => {
    const renewed = new Story()
      .call(99, 'w0.1:1')
      .granted(100, 'w0.1:1', 10, 50)
      .of(140, 'w0.1:1', 'proof', { until: 400 })
      .held(200, 300, 'w1.1:1', 11)
      .released(350, 'w0.1:1');
    expect(rulesOf(renewed)).toContain('exclusion');
  });

  it('finds a holder that looks after the end of its proof, and holds the lock still', () => {
    const looked = (t: number) =>
      new Story()
        .call(99, 'w0.1:1')
        .granted(100, 'w0.1:1', 10, 50)
        .of(t, 'w0.1:1', 'act', {})
        .of(t + 1, 'w0.1:1', 'lost', { reason: 'expired' })
        .held(160, 300, 'w1.1:1', 11);
    expect(rulesOf(looked(155))).toEqual([]);
    expect(rulesOf(looked(165))).toEqual(['exclusion']);
  });

  it('checks a client without a proof only while it runs', () => {
    const held = (story: Story) =>
      story.call(99, 'w0.1:1').granted(100, 'w0.1:1', 10, null).held(200, 300, 'w1.1:1', 11);
    expect(rulesOf(held(new Story()).released(400, 'w0.1:1'))).toContain('exclusion');
    const stopped = held(new Story()).nemesis(150, 'suspended', { of: 'w0.1' }).nemesis(350, 'resumed', { of: 'w0.1' });
    expect(rulesOf(stopped.of(351, 'w0.1:1', 'unheld', {}))).toEqual([]);
  });

  it('excuses a loss of data for one lease, and only for the keys that it concerns', () => {
    const lost = (keys: readonly string[] | 'all') =>
      new Story()
        .nemesis(140, 'fault', { id: 1, kind: 'key deleted', forgets: keys })
        .nemesis(145, 'over', { id: 1 })
        .held(100, 200, 'w0.1:1', 10)
        .held(150, 250, 'w1.1:1', 11);
    expect(rulesOf(lost(['a']))).toEqual([]);
    expect(rulesOf(lost('all'))).toEqual([]);
    expect(rulesOf(lost(['b']))).toContain('exclusion');
    const forEver = lost('all').of(190, 'w0.1:1', 'proof', { until: 2_000 });
    forEver.events.splice(
      forEver.events.findIndex(({ e }) => e === 'releasing'),
      2,
    );
    expect(rulesOf(forEver.held(300, 1_500, 'w2.1:1', 12))).toContain('exclusion');
  });

  it('excuses it also if the holder of before the loss learns of its grant last', () => {
    const story = (calledAt: number) =>
      new Story()
        .nemesis(140, 'fault', { id: 1, kind: 'FLUSHALL', forgets: 'all' })
        .nemesis(145, 'over', { id: 1 })
        .held(150, 250, 'w1.1:1', 11)
        .call(calledAt, 'w0.1:1')
        .granted(151, 'w0.1:1', 10)
        .released(240, 'w0.1:1');
    expect(rulesOf(story(100))).toEqual([]);
    expect(rulesOf(story(148))).toContain('exclusion');
  });

  it('does not excuse a fault that loses nothing, nor holders that were both granted after the loss', () => {
    const fault = (forgets: 'all' | undefined, t: number) =>
      twoWriters()
        .nemesis(t, 'fault', { id: 1, kind: 'server stopped', forgets })
        .nemesis(t + 1, 'over', { id: 1 });
    expect(rulesOf(fault(undefined, 120))).toContain('exclusion');
    expect(rulesOf(fault('all', 50))).toContain('exclusion');
  });
});
