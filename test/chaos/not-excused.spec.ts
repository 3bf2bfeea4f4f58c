import { Story, rulesOf } from './story.js';

const flushed = (story: Story, t: number) =>
  story.nemesis(t, 'fault', { id: 1, kind: 'FLUSHALL', forgets: 'all' }).nemesis(t + 5, 'over', { id: 1 });

describe('The checker of chaos, beside what it excuses,', () => {
  it('finds too many readers after a loss of data, beside one from before it', () => {
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

  it('finds a reader that is not told of its loss, however many other readers come before the writer', () => {
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
    ['status 0 before it was told to', { code: 0, signal: null }],
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
