import { Story, rulesOf } from './story.js';

describe('The checker of chaos: leaders', () => {
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

    it.each(['expired', 'resigned', 'shutdown'])('is told too late after the next election: %s', (reason) => {
      expect(rulesOf(expired(400, reason))).toEqual(['loss-told']);
      expect(rulesOf(expired(190, reason))).toEqual([]);
    });

    it('may be told late when the lock was taken by an operator', () => {
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

  it('finds a process that leads again while the work of its last term goes on', () => {
    const again = (workEndsAt: number) =>
      new Story().led(100, 200, 'w0.1:lead:1', 10, { workEndsAt }).led(300, 400, 'w0.1:lead:2', 11);
    expect(rulesOf(again(250))).toEqual([]);
    expect(rulesOf(again(350))).toEqual(['leaders']);
  });

  it('finds a lead that nobody has although a process campaigns for it', () => {
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

describe('The checker of chaos: a run', () => {
  const does = (deed: 'transfers' | 'leads') =>
    new Story().process(0, 'w0.1', 'ready', { does: [deed] }).nemesis(1_000, 'stopping', {});

  it('that elects nobody tests nothing', () => {
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
