import { LogLimit } from '../../../../lib/core/log-limit.js';
import { TimerQueue } from '../../../../lib/core/timer-queue.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

function setUp() {
  const clock = new FakeClock();
  const timers = new TimerQueue(clock);
  const lines: string[] = [];
  const log = new LogLimit(clock, timers, 'things', (line) => lines.push(line));
  const add = (count: number) => Array.from({ length: count }, (_, i) => log.add(`${i}`));
  return { clock, timers, lines, log, add };
}

const first = (count: number) => Array.from({ length: count }, (_, i) => `${i}`);

describe('lines of one kind', () => {
  it('are logged unchanged while they are few, and keep no timer', async () => {
    const { clock, timers, lines, add } = setUp();
    add(10);
    expect([lines, timers.size]).toEqual([first(10), 0]);
    await clock.advance(10_000);
    add(10);
    expect([lines, timers.size]).toEqual([[...first(10), ...first(10)], 0]);
  });

  it('are counted when they are many, and their number is logged once at the end of the period', async () => {
    const { clock, timers, lines, add } = setUp();
    add(1_000);
    await clock.advance(5_000);
    add(500);
    await clock.advance(4_999);
    expect([lines, timers.size]).toEqual([first(10), 1]);
    await clock.advance(1);
    expect([lines, timers.size]).toEqual([[...first(10), 'Within 10 s, 1490 more things.'], 0]);
  });

  it('are summed up at once at the end, and then start anew', () => {
    const { timers, lines, log, add } = setUp();
    add(11);
    log.flush();
    log.flush();
    add(1);
    expect([lines, timers.size]).toEqual([[...first(10), 'Within 10 s, 1 more things.', '0'], 0]);
  });

  it('are summed up before the next line after a blocked event loop', () => {
    const { clock, lines, add } = setUp();
    add(12);
    clock.jump(60_000);
    add(1);
    expect(lines).toEqual([...first(10), 'Within 10 s, 2 more things.', '0']);
  });
});
