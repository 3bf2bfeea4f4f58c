import { NOTHING, startLocker } from '../../support/core/core-parts.js';

const LOCKS = 500;

describe('an outage that affects many locks at once', () => {
  it('is reported to each holder, and logged for some with the number of the others', async () => {
    const { clock, store, reporter, locker, enter } = startLocker();
    const keys = Array.from({ length: LOCKS }, (_, i) => `k${i}`);
    const locks = await Promise.all(keys.map((key) => enter(key)));
    const signals = locks.map(({ signal }) => signal);
    let losses = 0;
    locker.events.on('lost', () => (losses += 1));
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await clock.advance(30_000);
    expect([signals.filter(({ aborted }) => aborted).length, losses]).toEqual([LOCKS, LOCKS]);
    const linesOf = (text: string) => reporter.lines.filter((line) => line.includes(text));
    expect(linesOf('Renewing the lock "')).toHaveLength(10);
    expect(linesOf('renewals')).toEqual([
      `warn Within 10 s, ${LOCKS - 10} more renewals of locks failed and are tried again.`,
    ]);
    expect(linesOf(' was lost: ')).toHaveLength(10);
    expect(linesOf('were lost')).toEqual([`error Within 10 s, ${LOCKS - 10} more locks were lost.`]);
    expect([reporter.lines.length, locker.live.timers]).toEqual([22, 0]);
  });

  it('leaves no line unlogged, and no timer, when the app closes during it', async () => {
    const { clock, store, reporter, locker, enter } = startLocker();
    for (let i = 0; i < 20; i += 1) await enter(`k${i}`);
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await clock.advance(1_000);
    const closing = locker.close(0);
    await clock.advance(1);
    await closing;
    expect(reporter.lines).toContain('warn Within 10 s, 10 more renewals of locks failed and are tried again.');
    expect(reporter.lines).toContain('warn Within 10 s, 10 more locks were still held.');
    expect(reporter.lines).toContain('error Within 10 s, 10 more locks were lost.');
    expect([locker.live, clock.timers]).toEqual([NOTHING, 0]);
  });
});
