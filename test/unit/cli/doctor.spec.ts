import { checkInfo, checkOffset, checkSpread } from '../../../lib/cli/doctor/server-checks.js';
import { type Stored, recognize } from '../../../lib/cli/doctor/lock-checks.js';

const SINGLE = { isCluster: false, findsMaster: false, minReplicas: 0 };
const HEALTHY = ['redis_version:7.2.0', 'role:master', 'maxmemory:0', 'aof_enabled:1', 'connected_slaves:0'];

function levels(...lines: string[]): string[] {
  const info = ['# All', ...lines, ...HEALTHY, ''].join('\r\n');
  const found = Object.entries(checkInfo(info, SINGLE));
  return found.flatMap(([check, results]) =>
    results.filter(({ level }) => level !== 'ok').map(({ level }) => `${check} ${level}`),
  );
}

describe('the answer to INFO', () => {
  it.each([
    ['nothing bad', [], []],
    ['an evicting policy', ['maxmemory:9', 'maxmemory_policy:allkeys-lru'], ['eviction problem']],
    ['a full memory', ['maxmemory:100', 'maxmemory_policy:noeviction', 'used_memory:95'], ['eviction warn']],
    ['room in the memory', ['maxmemory:100', 'maxmemory_policy:noeviction', 'used_memory:50'], []],
    ['no append-only file', ['aof_enabled:0'], ['persistence warn']],
    ['a snapshot that failed', ['rdb_last_bgsave_status:err'], ['persistence problem']],
    ['an append-only file that cannot be written', ['aof_last_write_status:err'], ['persistence problem']],
    ['a replica in step', ['master_repl_offset:10', 'slave0:ip=a,port=1,state=online,offset=10,lag=0'], []],
    ['a replica that is late', ['slave0:ip=a,port=1,state=online,offset=10,lag=60'], ['replication warn']],
    [
      'a replica that is behind',
      ['master_repl_offset:9000000', 'slave0:ip=a,port=1,state=online,offset=10,lag=0'],
      ['replication warn'],
    ],
    ['a replica without its copy', ['slave0:ip=a,port=1,state=wait_bgsave,offset=0,lag=0'], ['replication warn']],
    [
      'one in step and one that is not',
      ['slave0:ip=a,port=1,state=online,offset=0,lag=0', 'slave1:ip=b,port=1,state=send_bulk,offset=0,lag=0'],
      ['replication warn'],
    ],
  ])('about %s', (_what, lines, expected) => {
    expect(levels(...lines)).toEqual(expected);
  });

  it('skips what a server does not report', () => {
    const found = Object.values(checkInfo('', SINGLE)).flat();
    expect(found.map(({ level }) => level)).toEqual(['skipped', 'skipped', 'skipped', 'skipped']);
  });
});

describe('the clocks', () => {
  it.each([
    [999, 1, 'ok'],
    [-1_500, 600, 'ok'],
    [-5_000, 1, 'warn'],
  ])('of a server and of this machine, %d ms apart (give or take %d ms)', (ms, uncertaintyMs, level) => {
    expect(checkOffset({ ms, uncertaintyMs })).toMatchObject({ level });
  });

  it.each([
    [[0, 100], 'ok'],
    [[0, 5, -2_000], 'warn'],
    [[3_000, 3_001], 'ok'],
  ])('of servers that are %j ms ahead of this machine', (all, level) => {
    expect(checkSpread(all.map((ms) => ({ ms, uncertaintyMs: 1 })))).toMatchObject({ level });
  });
});

describe('the data under the prefix', () => {
  const uuid = '0e37df36-f698-11e6-8dd4-cb9ced3df976';
  const text = (value: string, isTimed = true, type = 'string'): Stored => ({ type, text: value, isTimed });
  it.each<[string, Stored, string]>([
    ['order:1', { type: 'hash', fields: ['s', 'by'] }, 'this library'],
    [
      'order:1',
      { type: 'hash', fields: ['v', 'token'], kind: 'a lock that cannot be read' },
      'a lock that cannot be read',
    ],
    ['order:1', { type: 'hash', fields: [`${uuid}:42`] }, 'Redisson'],
    ['order:1', { type: 'hash', fields: ['name'] }, 'something else (a hash)'],
    ['order:1', text('0123456789abcdef0123456789abcdef'), 'redlock'],
    ['order:1', text('0123456789abcdef0123456789abcdef', false), 'something else (a string)'],
    ['order:1', text('ADDED:2026-01-01T00:00:00.000Z@host'), 'ShedLock'],
    ['order:1', text(uuid), 'murlock, or another library that writes a UUID'],
    ['mutex:order:1', text(uuid), 'redis-semaphore'],
    ['semaphore:order', text('', false, 'zset'), 'redis-semaphore'],
    ['order:1', text('', false, 'list'), 'something else (list)'],
    ['order:1', text('', false, ''), 'something else (no hash)'],
    ['order:1', text('x'), 'something else (a string with a time to live)'],
  ])('as %s, %j, is of %s', (name, stored, library) => {
    expect(recognize(name, stored)).toBe(library);
  });
});
