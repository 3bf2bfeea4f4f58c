import { Story, rulesOf } from './story.js';

describe('The checker of chaos: exclusion', () => {
  const twoWriters = () => new Story().held(100, 200, 'w0.1:1', 10).call(99, 'w1.1:1').granted(150, 'w1.1:1', 11);

  it('finds two writers', () => {
    expect(rulesOf(twoWriters())).toContain('exclusion');
  });

  it('finds a reader beside a writer, and a second writer among owners of another name', () => {
    const reader = new Story().held(100, 200, 'w0.1:1', 10).held(150, 250, 'w1.1:1', 11, { mode: 'read' });
    expect(rulesOf(reader)).toContain('exclusion');
    const owners = new Story()
      .held(100, 200, 'w0.1:1', 10, { owner: 'alice' })
      .held(150, 250, 'w1.1:1', 11, { owner: 'bob' });
    expect(rulesOf(owners)).toContain('exclusion');
  });

  it('finds a writer beside a hold that was downgraded, and a reader before the downgrade', () => {
    const writer = new Story().held(100, 200, 'w0.1:1', 10).of(120, 'w0.1:1', 'reads', {}).held(150, 250, 'w1.1:1', 11);
    expect(rulesOf(writer)).toContain('exclusion');
    const reader = new Story()
      .held(100, 200, 'w0.1:1', 10)
      .of(180, 'w0.1:1', 'reads', {})
      .held(150, 250, 'w1.1:1', 11, { mode: 'read' });
    expect(rulesOf(reader)).toContain('exclusion');
  });

  it('does not excuse a process that was stopped, since its proof would tell it', () => {
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

  it('judges a client without a proof only while it runs', () => {
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
