import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { readRuns, readLockState } from '../../../../lib/redis/codec/lock-record.js';

const NOW = 1_700_000_000_000;
const TOKEN = 1_700_000_000_000_001;

const holdFields = (attempt: string, remainingMs: number, { mode = 'write', owner = '-', leaseMs = 3_000 } = {}) => [
  `hold:${attempt}`,
  `${NOW + remainingMs} ${leaseMs} ${mode} ${TOKEN} ${NOW - 500} ${owner}`,
];

const read = (...fields: string[]) => readLockState('k', [String(NOW), ...fields]);

describe('the record of a lock', () => {
  it('is free when it does not exist', () => {
    expect(read()).toEqual({
      key: 'k',
      mode: 'free',
      holders: [],
      waiters: 0,
      queue: [],
      permits: null,
      fencingToken: 0,
    });
  });

  it('remembers its last token when it is free', () => {
    expect(read('token', String(TOKEN))).toMatchObject({ mode: 'free', fencingToken: TOKEN });
  });

  it('contains every detail of a holder', () => {
    const state = read('token', String(TOKEN), ...holdFields('c.1', 2_000), 'id:c.1', 'web-1:42 Orders.charge');
    expect(state).toEqual({
      key: 'k',
      mode: 'write',
      waiters: 0,
      queue: [],
      permits: null,
      fencingToken: TOKEN,
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
    const fields = [...holdFields('c.1', 5, { mode: 'read' }), ...holdFields('c.2', 0, { mode: 'read' })];
    const state = read(...fields, ...holdFields('c.3', 9, { mode: 'read' }));
    expect(state.mode).toBe('read');
    expect(state.holders.map(({ attempt }) => attempt)).toEqual(['c.1', 'c.3']);
  });

  it('reports at most the lease when the server clock was set back', () => {
    expect(read(...holdFields('c.1', 3_600_000)).holders[0]).toMatchObject({ remainingMs: 3_000 });
  });

  it('refuses a waiter that it cannot read', () => {
    expect(() => read('queue:1', `${NOW + 10} 3000 write 1 0 3000 c.1`)).toThrow(LockStoreError);
  });
});

describe('the last run of a job', () => {
  const run = (rest: string, ...fields: string[]) =>
    readRuns('k', [
      String(NOW),
      'run:Jobs.run',
      `60000 c.1 ${NOW - 500} ${rest}`,
      'run:by:Jobs.run',
      'web-1:42',
      ...fields,
    ])[0];
  const by = { job: 'Jobs.run', instance: 'web-1:42', attempt: 'c.1' };
  const started = { fire: new Date(60_000), ...by, started: new Date(NOW - 500) };

  it('is null when there was none', () => {
    expect(readRuns('k', [String(NOW), 'token', '1', 'fires:Jobs.run', ';', 'jobs', `Jobs.run ${NOW}`])).toEqual([]);
  });

  it('is reported for each job by its name', () => {
    const names = ['Jobs.run', 'by:Jobs.run', 'by', 'Zähler.zähle 100 %'];
    const fields = names.flatMap((name, i) => [
      `run:${encodeURIComponent(name)}`,
      `${60_000 + i} c.1 ${NOW} 0 -`,
      `run:by:${encodeURIComponent(name)}`,
      `web-${i}:42`,
    ]);
    const told = readRuns('k', [String(NOW), ...fields]).map(({ job, fire, instance }) => [
      job,
      fire.getTime(),
      instance,
    ]);
    expect(told).toEqual(names.map((name, i) => [name, 60_000 + i, `web-${i}:42`]));
  });

  it('is running while its own hold is live, and not parked', () => {
    expect(run('0 -', ...holdFields('c.1', 1))).toEqual({ ...started, ended: null, outcome: 'running' });
    const parked = `${NOW + 900} 3000 write 0 ${NOW - 500} -`;
    expect(run('0 -', 'hold:c.1', parked)).toMatchObject({ outcome: 'lost' });
  });

  it('is lost when its hold is gone, has ended, or belongs to another attempt', () => {
    expect(run('0 -')).toEqual({ ...started, ended: null, outcome: 'lost' });
    expect(run('0 -', ...holdFields('c.1', 0))).toMatchObject({ outcome: 'lost' });
    expect(run('0 -', ...holdFields('c.2', 900))).toMatchObject({ outcome: 'lost' });
  });
});
