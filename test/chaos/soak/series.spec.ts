import { curves } from './curves.js';
import { judge, seriesOf } from './verdict.js';
import { table } from './text.js';

const sample = (minute: number, source: string, values: Record<string, number>) => ({ minute, source, values });

describe('The series of a soak', () => {
  it('are one for each quantity of each source; what was not counted was not there', () => {
    const samples = [sample(1, 'w0', { sockets: 6 }), sample(1, 'w1', { sockets: 7 })];
    const all = seriesOf([...samples, sample(2, 'w0', { sockets: 6, 'kind WriteWrap': 1 })]);
    expect(all).toEqual([
      { source: 'w0', name: 'sockets', minutes: [1, 2], values: [6, 6] },
      { source: 'w0', name: 'kind WriteWrap', minutes: [1, 2], values: [0, 1] },
      { source: 'w1', name: 'sockets', minutes: [1], values: [7] },
    ]);
  });

  it('have a row and a diagram, in which a process that leaks stands out', () => {
    const minutes = Array.from({ length: 20 }, (_, i) => i);
    const samples = minutes.flatMap((minute) => [
      sample(minute, 'w0', { sockets: 6 }),
      sample(minute, 'w1', { sockets: 6 + minute }),
    ]);
    const verdicts = seriesOf(samples).map(judge);
    expect(table(verdicts)).toContain('| processes | sockets | 6, 9 | 6, 22 | 0, 1,440 | 150 | flat, growing |');
    expect(curves(verdicts).match(/<polyline/g)).toHaveLength(2);
  });
});
