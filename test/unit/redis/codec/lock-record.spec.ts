import { readRuns, readLockState } from '../../../../lib/redis/codec/replies.js';

const UNREADABLE = expect.objectContaining({ code: 'LOCK_STORE', key: 'k', retryable: false });
const NOW = 1_700_000_000_000;
const TOKEN = 1_700_000_000_000_001;

const holdOf = (
  attempt: string,
  remainingMs: number,
  { mode = 'w', owner = '-', token = TOKEN, text = 'web-1:42' } = {},
) => ['hold', attempt, NOW + remainingMs, 3_000, token, mode, 1, 0, NOW - 500, owner, 0, text].map(String);

const runOf = (job: string, fire: number, ended: string, outcome: string, instance = 'web-1:42') => [
  'job',
  job,
  String(fire),
  'c.1',
  String(NOW - 500),
  ended,
  outcome,
  instance,
  '-',
  '-',
  '-',
  '-',
];

/** The reply of the script for a lock that was granted before. */
const replyOf = (...records: string[][]) => [String(NOW), String(TOKEN), '', ...records.flat()];
const read = (...records: string[][]) => readLockState('k', replyOf(...records));

describe('the record of a lock', () => {
  it('is free when it does not exist', () => {
    expect(readLockState('k', [String(NOW), '0', ''])).toEqual({
      key: 'k',
      mode: 'free',
      holders: [],
      waiters: 0,
      queue: [],
      permits: null,
      fencingToken: 0,
      readAt: new Date(NOW),
    });
  });

  it('contains every detail of a holder', () => {
    const state = read(holdOf('c.1', 2_000, { text: 'web-1:42 Orders.charge' }));
    expect(state).toEqual({
      key: 'k',
      mode: 'write',
      waiters: 0,
      queue: [],
      permits: null,
      fencingToken: TOKEN,
      readAt: new Date(NOW),
      holders: [
        {
          owner: 'c.1',
          attempt: 'c.1',
          mode: 'write',
          take: 1,
          host: 'web-1',
          pid: 42,
          where: 'Orders.charge',
          note: '',
          since: new Date(NOW - 500),
          remainingMs: 2_000,
          fencingToken: TOKEN,
        },
      ],
    });
  });

  it('is held for reading by all holds that have not ended', () => {
    const [one, ended] = [holdOf('c.1', 5, { mode: 'r' }), holdOf('c.2', 0, { mode: 'r' })];
    const state = read(one, ended, holdOf('c.3', 9, { mode: 'r' }));
    expect(state.mode).toBe('read');
    expect(state.holders.map(({ attempt }) => attempt)).toEqual(['c.1', 'c.3']);
  });

  it('has the permits of the reader that was granted last, for any order of the reply', () => {
    const reader = (token: number, permits: string) => holdOf(`c.${token}`, 900, { mode: 'r', token }).with(7, permits);
    const [first, last] = [reader(TOKEN - 1, '2'), reader(TOKEN, '3')];
    const expected = { allowed: 3, used: 2, available: 1 };
    expect([read(first, last).permits, read(last, first).permits]).toEqual([expected, expected]);
  });

  it('reports at most the lease when the server clock was set back', () => {
    expect(read(holdOf('c.1', 3_600_000)).holders[0]).toMatchObject({ remainingMs: 3_000 });
  });

  it('has its waiters in their order, for any order of the reply', () => {
    const waiterAt = (place: number) => ['waiter', ...holdOf(`c.${place}`, 900).slice(1).with(9, String(place))];
    const { waiters, queue } = read(waiterAt(12), waiterAt(3), waiterAt(7));
    expect(waiters).toBe(3);
    expect(queue.map(({ attempt, place }) => [attempt, place])).toEqual([
      ['c.3', 1],
      ['c.7', 2],
      ['c.12', 3],
    ]);
  });

  it.each([
    ['of another kind', holdOf('c.1', 10).with(0, 'queue')],
    ['of another mode', holdOf('c.1', 10).with(5, 'write')],
    ['with another deadline', holdOf('c.1', 10).with(2, 'soon')],
    ['that is cut off', holdOf('c.1', 10).slice(0, -1)],
  ])('refuses a record %s, which no retry changes', (_what, record) => {
    expect(() => read(record)).toThrow(UNREADABLE);
  });

  it('has its holders in the order of their grants, for any order of the reply', () => {
    const readerAt = (since: number, token: number) =>
      holdOf(`c.${token}`, 900, { mode: 'r', token }).with(8, String(NOW - since));
    const all = [readerAt(500, 8), readerAt(700, 9), readerAt(500, 7), readerAt(100, 6)];
    for (const records of [all, all.toReversed()]) {
      expect(read(...records).holders.map(({ fencingToken }) => fencingToken)).toEqual([9, 7, 8, 6]);
    }
  });
});

describe('the last run of a job', () => {
  const run = (ended: string, outcome: string, ...records: string[][]) =>
    readRuns('k', replyOf(runOf('Jobs.run', 60_000, ended, outcome), ...records))[0];
  const by = { job: 'Jobs.run', instance: 'web-1:42', attempt: 'c.1' };
  const started = { fire: new Date(60_000), ...by, started: new Date(NOW - 500) };

  it('is null when there was none, or its fire was given back', () => {
    expect(readRuns('k', replyOf())).toEqual([]);
    expect(run('0', 'void')).toBeUndefined();
  });

  it('is reported for each job by its name', () => {
    const names = ['Jobs.run', 'by:Jobs.run', 'by', 'Zähler.zähle 100 %'];
    const records = names.map((name, i) => runOf(encodeURIComponent(name), 60_000 + i, '0', '-', `web-${i}:42`));
    const read = readRuns('k', replyOf(...records)).map(({ job, fire, instance }) => [job, fire.getTime(), instance]);
    expect(read).toEqual(names.map((name, i) => [name, 60_000 + i, `web-${i}:42`]));
  });

  it('has the name that is stored, if that is not percent-encoded', () => {
    expect(readRuns('k', replyOf(runOf('100 %', 60_000, '0', '-')))).toMatchObject([{ job: '100 %' }]);
  });

  it.each([2, 4, 5])('is refused if one of its times is not a time (part %i)', (part) => {
    const record = runOf('Jobs.run', 60_000, String(NOW), 'done');
    for (const text of ['noon', '9007199254740991']) {
      expect(() => readRuns('k', replyOf(record.with(part, text)))).toThrow(UNREADABLE);
    }
  });

  it.each(['done', 'failed'])('has ended when its outcome is known: %s', (outcome) => {
    expect(run(String(NOW), outcome)).toEqual({ ...started, ended: new Date(NOW), outcome });
  });

  it('is running while its own hold is live, and not parked', () => {
    expect(run('0', '-', holdOf('c.1', 1))).toEqual({ ...started, ended: null, outcome: 'running' });
    expect(run('0', '-', holdOf('c.1', 900, { token: 0 }))).toMatchObject({ outcome: 'lost' });
  });

  it('is lost when its hold is gone, has ended, or belongs to another attempt', () => {
    expect(run('0', '-')).toEqual({ ...started, ended: null, outcome: 'lost' });
    expect(run('0', '-', holdOf('c.1', 0))).toMatchObject({ outcome: 'lost' });
    expect(run('0', '-', holdOf('c.2', 900))).toMatchObject({ outcome: 'lost' });
  });
});
