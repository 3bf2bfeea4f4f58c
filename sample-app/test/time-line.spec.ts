import { TimeLine } from '../src/playground/time-line.js';
import type { FireReport } from '../src/lottery/fire-report.js';
import type { InstanceName } from '../src/runner/instance-group.js';
import { FireBoard } from '../src/runner/fire-board.js';

/** A time line of one fire after the start, of which A and B have to report. */
function setUp() {
  const timeLine = new TimeLine();
  const lines: string[] = [];
  const board = new FireBoard({
    instances: () => ['A', 'B'],
    print: (line) => lines.push(line),
    onComplete: (fire, reports) => timeLine.addFire(fire, reports),
    onLate: (fire, name, report) => timeLine.correctFire(fire, name, report),
  });
  board.start();
  const fire = Date.now() + 3_000;
  const add = (name: InstanceName, report: Partial<FireReport>): void =>
    board.add(name, { type: 'fire', fire, ...report } as FireReport);
  const shown = (name: InstanceName) => timeLine.moments[0]?.parts[name]?.map(({ text }) => text);
  return { add, shown, lines };
}

const DREW = { outcome: 'drew', fencingToken: 7, winners: [1, 2] } as const;

describe('the time line of the playground', () => {
  it('is corrected by an instance that reports late', () => {
    const { add, shown, lines } = setUp();
    add('A', { outcome: 'skipped' });
    add('B', { outcome: 'skipped' });
    expect([shown('A'), shown('B')]).toEqual([['skipped'], ['skipped']]);
    add('A', DREW);
    expect([shown('A'), shown('B')]).toEqual([['drew 2 winners (token 7)'], ['skipped']]);
    add('A', { outcome: 'skipped' });
    expect(shown('A')).toEqual(['drew 2 winners (token 7)']);
    expect(lines).toHaveLength(1);
  });
});
