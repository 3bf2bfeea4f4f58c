import { rulesOf, Story } from './story.js';

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

describe('The checker: locks that change hands', () => {
  it('finds nothing if one call adopts the lock, and others get it afterwards', () => {
    expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1').held(310, 400, 'w2.1:1', 11))).toEqual([]);
  });

  it('finds nothing if it is not adopted, and others get it after its lease', () => {
    expect(rulesOf(held().held(1_201, 1_300, 'w2.1:1', 11))).toEqual([]);
  });

  describe('exclusion', () => {
    it('is broken by a grant on the way to the next process, also if the first one has died', () => {
      const between = () => held().held(210, 220, 'w2.1:1', 11);
      expect(rulesOf(adopted(between(), 230, 300, 'w1.1:1'))).toEqual(['exclusion']);
      const died = between().nemesis(205, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' });
      expect(rulesOf(died)).toEqual(['exclusion']);
    });

    it('is broken by a grant while the process that adopted it has it', () => {
      expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1').held(240, 280, 'w2.1:1', 11))).toContain('exclusion');
    });

    it('is not broken after an adoption that failed, and may have given the lock back', () => {
      expect(rulesOf(refused(held(), 250, 900, 'LOCK_STORE').held(400, 500, 'w3.1:1', 11))).toEqual([]);
      expect(rulesOf(refused(held(), 350, 900, 'LOCK_STORE').held(300, 400, 'w3.1:1', 11))).toEqual(['exclusion']);
    });

    it('is not broken by a reader of one permit, which a reader without permits has joined', () => {
      const one = { mode: 'read', permits: 1 } as const;
      const story = new Story().call(99, 'w0.1:1', one).granted(100, 'w0.1:1', 10);
      story.held(110, 290, 'w2.1:1', 11, { mode: 'read' });
      story.of(200, 'w0.1:1', 'transferred', { asked: 200, leaseMs: 1_000, mode: 'read' });
      story.adopts(220, 'w1.1:1', 'w0.1:1', one).granted(230, 'w1.1:1', 10, 170).released(300, 'w1.1:1');
      expect(rulesOf(story)).toEqual([]);
    });

    it('is not broken if what the transfer left behind was lost', () => {
      const lost = held(fault(205, 'all')).held(220, 300, 'w2.1:1', 11);
      expect(rulesOf(lost)).toEqual([]);
    });
  });

  it('finds a fencing token that is not the same', () => {
    expect(rulesOf(adopted(held(), 230, 300, 'w1.1:1', 11))).toEqual(['transfers']);
  });

  it('finds a mode that is not the same', () => {
    const story = (mode: 'read' | 'write') =>
      new Story()
        .call(99, 'w0.1:1')
        .granted(100, 'w0.1:1', 10)
        .of(200, 'w0.1:1', 'transferred', { asked: 200, leaseMs: 1_000, mode: 'read' })
        .adopts(220, 'w1.1:1', 'w0.1:1', { mode })
        .granted(230, 'w1.1:1', 10)
        .released(300, 'w1.1:1');
    expect(rulesOf(story('read'))).toEqual([]);
    expect(rulesOf(story('write'))).toEqual(['transfers']);
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

    it('is broken if it is notified of a loss afterwards, but not otherwise', () => {
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

describe('The checker: leaders', () => {
  it('finds nothing in terms that follow each other', () => {
    const story = new Story()
      .led(100, 200, 'w0.1:lead:1', 10)
      .led(205, 400, 'w1.1:lead:1', 11, { reason: 'expired', workEndsAt: 900 })
      .led(501, 700, 'w0.1:lead:2', 12, { reason: 'stopped' })
      .led(901, 990, 'w1.1:lead:2', 13);
    expect(rulesOf(story)).toEqual([]);
  });

  it('finds two that lead at once', () => {
    expect(rulesOf(new Story().led(100, 300, 'w0.1:lead:1', 10).led(200, 400, 'w1.1:lead:1', 11))).toContain(
      'exclusion',
    );
  });

  it('finds a term with a token that is not greater', () => {
    expect(rulesOf(new Story().led(100, 200, 'w0.1:lead:1', 10).led(300, 400, 'w1.1:lead:1', 10))).toEqual(['fencing']);
  });

  describe('the end of a term', () => {
    const expired = (toldAt: number, reason: string) =>
      new Story()
        .of(99, 'w0.1:lead:1', 'campaigns', { key: 'lead', leaseMs: 1_000 })
        .granted(100, 'w0.1:lead:1', 10, 50)
        .led(200, 700, 'w1.1:lead:1', 11)
        .of(toldAt, 'w0.1:lead:1', 'demoted', { reason });

    it.each(['expired', 'resigned', 'shutdown'])('is reported too late after the next election: %s', (reason) => {
      expect(rulesOf(expired(400, reason))).toEqual(['loss-told']);
      expect(rulesOf(expired(190, reason))).toEqual([]);
    });

    it('may be reported late when the lock was taken by an operator', () => {
      const revoked = expired(400, 'revoked').nemesis(180, 'fault', {
        id: 1,
        kind: 'force release',
        forgets: ['lead'],
      });
      expect(rulesOf(revoked.nemesis(190, 'over', { id: 1 }))).toEqual([]);
    });

    it('is the end of leading', () => {
      const led = (actAt: number) =>
        new Story().led(100, 200, 'w0.1:lead:1', 10, { workEndsAt: 300 }).of(actAt, 'w0.1:lead:1', 'act', {});
      expect(rulesOf(led(199))).toEqual([]);
      expect(rulesOf(led(250))).toEqual(['leaders']);
    });
  });

  it('finds a process that leads again while the work of its last term continues', () => {
    const again = (workEndsAt: number) =>
      new Story().led(100, 200, 'w0.1:lead:1', 10, { workEndsAt }).led(300, 400, 'w0.1:lead:2', 11);
    expect(rulesOf(again(250))).toEqual([]);
    expect(rulesOf(again(350))).toEqual(['leaders']);
  });

  it('finds a lead that no process has although one campaigns for it', () => {
    const story = (electedAt: number) =>
      new Story()
        .led(100, 200, 'w0.1:lead:1', 10)
        .nemesis(210, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' })
        .of(150, 'w1.1:lead:1', 'campaigns', { key: 'lead', leaseMs: 1_000 })
        .granted(electedAt, 'w1.1:lead:1', 11)
        .nemesis(9_000, 'stopping', {});
    expect(rulesOf(story(1_300))).toEqual([]);
    expect(rulesOf(story(8_000))).toEqual(['no-lost-wake-up']);
  });
});

describe('The checker: a run', () => {
  const does = (deed: 'transfers' | 'leads') =>
    new Story().process(0, 'w0.1', 'ready', { does: [deed] }).nemesis(1_000, 'stopping', {});

  it('without an election tests nothing', () => {
    expect(rulesOf(does('leads').held(100, 200, 'w0.1:1', 10))).toEqual(['nothing-tested']);
    expect(rulesOf(does('leads').held(100, 200, 'w0.1:1', 10).led(100, 200, 'w0.1:lead:1', 10))).toEqual([]);
  });

  it('in which no lock is adopted tests nothing', () => {
    const transferred = () =>
      does('transfers').call(99, 'w0.1:1').granted(100, 'w0.1:1', 10).transferred(200, 'w0.1:1');
    expect(rulesOf(transferred())).toEqual(['nothing-tested']);
    const adopted = transferred().adopts(220, 'w1.1:1', 'w0.1:1').granted(230, 'w1.1:1', 10).released(300, 'w1.1:1');
    expect(rulesOf(adopted)).toEqual([]);
  });
});

const flushed = (story: Story, t: number) =>
  story.nemesis(t, 'fault', { id: 1, kind: 'FLUSHALL', forgets: 'all' }).nemesis(t + 5, 'over', { id: 1 });

describe('The checker, next to what it excuses,', () => {
  it('finds too many readers after a loss of data, together with one from before it', () => {
    const permits = { keys: ['p'], mode: 'read' as const, permits: 2 };
    const before = () => flushed(new Story(), 140).held(100, 400, 'w0.1:1', 10, permits);
    const two = () => before().held(160, 400, 'w1.1:1', 11, permits).held(170, 400, 'w2.1:1', 12, permits);
    expect(rulesOf(two())).toEqual([]);
    expect(rulesOf(two().held(180, 400, 'w3.1:1', 13, permits))).toEqual(['permits']);
  });

  it('finds a token that falls, unless a node of a quorum has lost its data meanwhile', () => {
    const fell = (story: Story) => story.held(100, 110, 'w0.1:1', 20).held(200, 210, 'w1.1:1', 10);
    expect(rulesOf(fell(new Story()), true)).toEqual(['fencing']);
    expect(rulesOf(fell(flushed(new Story(), 50)), true)).toEqual(['fencing']);
    expect(rulesOf(fell(flushed(new Story(), 150)), true)).toEqual([]);
    expect(rulesOf(fell(flushed(new Story(), 150)))).toEqual(['fencing']);
    expect(rulesOf(flushed(new Story(), 50).held(100, 110, 'w0.1:1', 0), true)).toEqual(['fencing']);
  });

  it('finds a third run of a fire whose second run a loss of data explains', () => {
    const run = (story: Story, t: number, op: string, token: number) =>
      story.held(t, t + 10, op, token, { keys: ['job'], fire: 1, waitMs: 0 });
    const two = run(run(flushed(new Story(), 150), 100, 'w0.1:1', 10), 200, 'w1.1:1', 11);
    expect(rulesOf(two)).toEqual([]);
    expect(rulesOf(run(two, 300, 'w2.1:1', 12))).toEqual(['one-run-per-fire']);
  });

  it('finds a reader that is not notified of its loss, however many other readers come before the writer', () => {
    const story = new Story().call(99, 'w0.1:1', { mode: 'read' }).granted(100, 'w0.1:1', 10, 50);
    for (let i = 0; i < 8; i++) story.held(110 + i, 190, `w1.1:${i}`, 11 + i, { mode: 'read' });
    story.held(200, 700, 'w2.1:1', 30).of(500, 'w0.1:1', 'lost', { reason: 'expired' });
    expect(rulesOf(story)).toEqual(['loss-told']);
  });

  it('finds a waiter that is passed until its wait is over', () => {
    const story = (failedAt: number, code: string) =>
      new Story()
        .held(100, 3_000, 'w0.1:1', 10)
        .call(200, 'w1.1:1')
        .held(3_010, 3_050, 'w2.1:1', 11, {})
        .of(failedAt, 'w1.1:1', 'failed', { code });
    expect(rulesOf(story(5_200, 'LOCK_WAIT_TIMEOUT'))).toEqual(['first-in-first-out']);
    expect(rulesOf(story(3_100, 'LOCK_WAIT_TIMEOUT'))).toEqual([]);
    expect(rulesOf(story(5_200, 'LOCK_STORE'))).toEqual([]);
  });

  it('finds a process that is granted nothing in the pauses between the faults', () => {
    const story = new Story().process(0, 'w0.1', 'ready', {}).held(100, 200, 'w0.1:1', 10);
    for (let i = 1; i <= 10; i++) {
      story.nemesis(10_000 * i, 'fault', { id: i, kind: 'server stopped' });
      story.nemesis(10_000 * i + 1_000, 'over', { id: i });
    }
    expect(rulesOf(story.nemesis(100_000, 'stopping', {}))).toEqual(['recovery']);
  });

  it('finds a run in which no call was granted', () => {
    const story = new Story().process(0, 'w0.1', 'ready', {}).call(100, 'w0.1:1');
    story.of(200, 'w0.1:1', 'failed', { code: 'LOCK_STORE' });
    expect(rulesOf(story.nemesis(1_000, 'stopping', {}))).toEqual(['recovery']);
  });

  it('finds a wait that does not end when it is aborted', () => {
    const aborted = (failedAt: number) =>
      new Story().call(0, 'w0.1:1', { abortAfterMs: 200 }).of(failedAt, 'w0.1:1', 'failed', { code: 'TimeoutError' });
    expect(rulesOf(aborted(1_500))).toEqual([]);
    expect(rulesOf(aborted(4_900))).toContain('calls-settle');
  });

  it.each([
    ['a signal that no nemesis sends', { code: null, signal: 'SIGABRT' }],
    ['status 0 before it was ended', { code: 0, signal: null }],
  ])('finds a process that ends with %s', (_how, end) => {
    expect(rulesOf(new Story().nemesis(9, 'exit', { of: 'w0.1', ...end }))).toEqual(['no-stray-errors']);
  });

  it('excuses a process that is killed, and one that ends after its app', () => {
    const killed = new Story().nemesis(9, 'exit', { of: 'w0.1', code: null, signal: 'SIGKILL' });
    expect(rulesOf(killed)).toEqual([]);
    const closed = new Story().process(8, 'w0.1', 'closing', {});
    expect(rulesOf(closed.nemesis(9, 'exit', { of: 'w0.1', code: 0, signal: null }))).toEqual([]);
  });

  it('finds an error that is not of the library, of a call or on a hold', () => {
    const failed = (code: string) => new Story().call(100, 'w0.1:1').of(150, 'w0.1:1', 'failed', { code });
    expect(rulesOf(failed('TypeError'))).toEqual(['no-stray-errors']);
    for (const code of ['LOCK_STORE', 'LOCK_BUSY', 'TimeoutError', 'skipped'])
      expect(rulesOf(failed(code))).toEqual([]);
    for (const code of ['LOCK_CONFIGURATION', 'LOCK_KEY', 'LOCK_REENTRY'])
      expect(rulesOf(failed(code))).toEqual(['no-stray-errors']);
    const onHold = new Story().process(150, 'w0.1', 'error', { what: 'extend', code: 'RangeError' });
    expect(rulesOf(onHold)).toEqual(['no-stray-errors']);
  });
});
