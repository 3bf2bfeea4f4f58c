import { cutTo, tableLines } from '../../../lib/cli/output/terminal.js';
import {
  holdersTable,
  jsonLine,
  locksTable,
  queueTable,
  shortDuration,
  timeText,
} from '../../../lib/cli/output/text.js';
import { type LockState } from '../../../lib/core/store/lock-state.js';

describe('a readable duration', () => {
  it.each([
    [999, '0.9s'],
    [9_999, '9.9s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h 0m'],
    [90_061_000, '1d 1h'],
  ])('of %d ms is %s', (ms, text) => {
    expect(shortDuration(ms)).toBe(text);
  });
});

describe('a readable moment', () => {
  it('is in UTC', () => {
    expect(timeText(new Date(Date.UTC(2026, 2, 1, 3, 12, 45, 678)))).toBe('2026-03-01 03:12:45Z');
    expect(timeText(new Date(Number.NaN))).toBe('-');
  });
});

describe('a line of JSON', () => {
  it('has no character that a terminal acts on, and parses to the same value', () => {
    const value = { 'k\u009b': 'a\x1b[2J\u202e\u{e0001}\u2028ü\ud800' };
    const line = jsonLine(value);
    expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+\n$/u);
    expect(JSON.parse(line)).toEqual(value);
  });
});

describe('the tables of a lock', () => {
  it('have ages by the clock of the server, whatever the clock of this machine', () => {
    const at = (ms: number): Date => new Date(Date.UTC(2026, 2, 1) + ms);
    const caller = {
      host: 'web-1',
      pid: 7,
      where: '',
      note: '',
      owner: 'a',
      attempt: 'a',
      mode: 'write',
      take: 1,
    } as const;
    const state: LockState = {
      key: 'k',
      mode: 'write',
      holders: [{ ...caller, since: at(0), remainingMs: 5_000, fencingToken: 1 }],
      waiters: 1,
      queue: [{ ...caller, place: 1, since: at(0), until: at(3_660_000) }],
      permits: null,
      fencingToken: 1,
      readAt: at(3_600_000),
    };
    for (const { rows } of [locksTable([state]), holdersTable(state), queueTable(state)]) {
      expect(rows[0]).toContain('2026-03-01 00:00:00Z (1h 0m)');
    }
    expect(queueTable(state).rows[0]).toContain('in 1m 0s');
  });
});

describe('a table', () => {
  const table = {
    titles: ['KEY', 'N'],
    rows: [
      ['a', '1'],
      ['a long key that is long', '22'],
    ],
  };

  it('is aligned, without spaces at the end', () => {
    expect(tableLines(table, null)).toEqual([
      'KEY                      N',
      'a                        1',
      'a long key that is long  22',
    ]);
  });

  it.each([60, 20, 14, 5])('fits into %d columns', (columns) => {
    for (const line of tableLines(table, columns)) expect(line.length).toBeLessThanOrEqual(columns);
  });

  it('counts wide characters twice, and marks not at all', () => {
    expect(tableLines({ titles: ['日本', 'x'], rows: [['e\u0301', 'y']] }, null)).toEqual(['日本  x', 'e\u0301     y']);
    expect(cutTo('日本語', 5)).toBe('日本…');
    expect(cutTo('日本語', 4)).toBe('日…');
    expect(cutTo('👨‍👩‍👧ab', 3)).toBe('👨‍👩‍👧…');
  });
});
