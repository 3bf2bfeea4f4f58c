import { type FullLockStore } from '../../lib/core/store/capabilities.js';
import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { closeAll } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { type RedisLocks } from '../../lib/redis/open-store.js';
import { startBoard } from './support/board.js';
import { cli, startCli } from './support/cli.js';
import { fileRedis } from './support/file-redis.js';
import { hold, openStoreOf, runJob, tell, wait } from './support/locks.js';
import { silentServer } from './support/silent-server.js';

const redis = fileRedis();
let url: string;
beforeEach(() => void ({ url } = redis));
afterEach(closeAll);

/** The cells of a line of a table. */
const cells = (line = ''): string[] => line.trim().split(/ {2,}/);

describe('ls', () => {
  it('shows one of several holders, and how many more there are', async () => {
    const locks = openStoreOf(url);
    for (const holder of ['web-1:4321', 'web-3:7']) await hold(locks, 'report', holder, { mode: 'read' });
    const { code, stdout, stderr } = await cli(['ls', '--url', url]);
    expect(cells(stdout.split('\n')[1])).toEqual([
      'report',
      'read',
      expect.stringMatching(/^web-\d:\d+ \(\+1\)$/),
      '-',
      expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(.+\)$/),
      expect.stringMatching(/^(9m 5\ds|10m 0s)$/),
      '0',
    ]);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('lists those with a prefix, and not more than its limit', async () => {
    const locks = openStoreOf(url);
    for (const key of ['a:1', 'a:2', 'b:1']) await hold(locks, key);
    const ofA = await cli(['ls', 'a:', '--url', url]);
    expect(
      ofA.stdout
        .trim()
        .split('\n')
        .slice(1)
        .map((line) => cells(line)[0]),
    ).toEqual(['a:1', 'a:2']);
    const one = await cli(['ls', '--url', url, '--limit', '1']);
    expect(one.stdout.trim().split('\n')).toHaveLength(2);
    expect(one.stderr).toContain('There are more than 1 locks');
  });

  it.each(['ls', 'watch', 'jobs'])('shows with %s why a lock cannot be read, and the others', async (command) => {
    const locks = openStoreOf(url);
    await redis.admin.hset('lock:older', { v: '1', 'run:Job': 'a secret', 'hold:a': 'a secret' });
    await redis.admin.hset('lock:newer', { s: 'X of a secret form', by: 'a secret' });
    await runJob(locks, 'report', 'Reports.read');
    const { text, end, ended } = startCli([command, '--url', url]);
    await eventually(() => text.stdout.split('\n').length > 3);
    end();
    const { code, stdout } = await ended;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/older.*An earlier version/)]);
    expect(stdout).toMatch(/newer.*A newer version/);
    expect(stdout).toContain('report');
    expect(stdout).not.toContain('secret');
  });

  it('ends with 1 when there is none', async () => {
    const answer = await cli(['ls', 'x', '--url', url]);
    expect(answer).toEqual({ code: 1, stdout: '', stderr: 'No lock is held or waited for whose key begins with x.\n' });
  });

  it('finds locks with another prefix and with a hash tag', async () => {
    await hold(openStoreOf(url, { keyPrefix: 'app:', hashTag: 't' }), 'tagged');
    const { stdout } = await cli(['ls', '--url', url, '--prefix', 'app:', '--hash-tag', 't']);
    expect(stdout).toContain('tagged');
    expect((await cli(['ls', '--url', url])).code).toBe(1);
  });
});

describe('a user with the read-only permissions of docs/security.md', () => {
  it('can list and inspect, and release nothing', async () => {
    const document = readFileSync(join(process.cwd(), 'docs', 'security.md'), 'utf8');
    const [, rights = ''] = /^`(~lock:\* .*)`$/m.exec(document) ?? [];
    await hold(openStoreOf(url), 'order:1');
    await redis.admin.call('ACL', 'SETUSER', 'looker', 'reset', 'on', '>pass', ...rights.split(' '));
    const env = { REDIS_LOCK_USERNAME: 'looker', REDIS_LOCK_PASSWORD: 'pass', REDIS_LOCK_URL: url };
    for (const args of [['ls'], ['inspect', 'order:1']]) {
      expect(await cli(args, { env })).toMatchObject({ code: 0, stderr: '' });
    }
    expect(await redis.admin.call('ACL', 'LOG')).toEqual([]);
    const { code, stderr } = await cli(['release', 'order:1', '--yes'], { env });
    expect([code, stderr]).toEqual([3, expect.stringMatching(/can't run this command|NOPERM/)]);
  });
});

describe('inspect', () => {
  it('shows how many permits of a semaphore are taken', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'api', 'web-1:4321', { mode: 'read', permits: 3, take: 2 });
    const { stdout } = await cli(['inspect', 'api', '--url', url]);
    expect(stdout).toContain('\nread, 1 holder, 2 of 3 permits taken, 0 waiters; ');
    await (locks as RedisLocks & FullLockStore).setPermits('api', 1);
    expect((await cli(['inspect', 'api', '--url', url])).stdout).toContain('2 of 1 permit taken');
  });

  it('ends with 1 for a lock that is free, and changes nothing', async () => {
    const { code, stdout } = await cli(['inspect', 'nobody', '--url', url]);
    expect(stdout).toContain('free, 0 waiters; last fencing token: none is remembered');
    expect([code, await redis.admin.dbsize()]).toEqual([1, 0]);
  });
});

describe('run', () => {
  it('asks the board, with the login of the environment, to run the only job of the key', async () => {
    await runJob(openStoreOf(url), 'report', 'Reports.read');
    const { asked, address } = await startBoard(202);
    const env = { REDIS_LOCK_BOARD: `http://ann:a%20word@${address}` };
    expect(await cli(['run', 'report', '--url', url], { env })).toMatchObject({ code: 0, stderr: '' });
    const token = { ...env, REDIS_LOCK_BOARD_AUTHORIZATION: 'Bearer abc' };
    const { code, stdout } = await cli(['run', 'report', '--url', url, '--json'], { env: token });
    expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ job: 'Reports.read', isRunning: true })]);
    const body = { key: 'report', name: 'Reports.read' };
    expect(asked).toEqual([
      { path: '/ops/run-now', authorization: `Basic ${btoa('ann:a word')}`, body },
      { path: '/ops/run-now', authorization: 'Bearer abc', body },
    ]);
  });

  it('reports no run when something else than a board answers', async () => {
    const { address } = await startBoard(200, { page: 'a login' });
    const { code, stderr } = await cli(['run', 'report', '--job', 'A', '--url', url, '--board', `http://${address}`]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('This is not the answer of a board')]);
  });

  it('reads the jobs of the key alone, however many keys begin with it', async () => {
    await runJob(openStoreOf(url), 'report', 'Reports.read');
    const { asked, address } = await startBoard(200);
    await redis.admin.config('RESETSTAT');
    expect(await cli(['run', 'report', '--url', url, '--board', `http://${address}`])).toMatchObject({ code: 0 });
    expect(asked).toEqual([expect.objectContaining({ body: { key: 'report', name: 'Reports.read' } })]);
    expect(await redis.admin.info('commandstats')).not.toContain('cmdstat_scan');
  });

  it('sends the login to no other host when the path begins with two slashes', async () => {
    const { asked, address } = await startBoard(200);
    const board = `http://${address.replace('/ops', '//ops')}`;
    expect(await cli(['run', 'report', '--job', 'A', '--url', url, '--board', board])).toMatchObject({ code: 0 });
    expect(asked).toEqual([expect.objectContaining({ path: '//ops/run-now' })]);
  });

  it('reports a board that does not answer in time as a run that may have begun', async () => {
    const board = (await silentServer()).replace('redis:', 'http:');
    const args = ['run', 'report', '--job', 'A', '--url', url, '--board', board, '--timeout', '100'];
    expect(await cli(args)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('has not answered in time: the job may run'),
    });
  });

  it('reports a board whose answer does not end as a run that may have begun', async () => {
    const { address } = await startBoard(202, null);
    const args = ['run', 'report', '--job', 'A', '--url', url, '--board', `http://${address}`];
    expect(await cli([...args, '--timeout', '100'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('has not answered in time: the job may run'),
    });
    const { end, ended } = startCli([...args, '--timeout', '30000']);
    setTimeout(end, 100);
    expect(await ended).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('The job may run if the request has arrived.'),
    });
  });

  it.each([
    ['a password that is not encoded', { REDIS_LOCK_BOARD: 'http://ann:50%secret@127.0.0.1:1/' }, 'percent-encoded'],
    [
      'a header of two lines',
      { REDIS_LOCK_BOARD: 'http://127.0.0.1:1/', REDIS_LOCK_BOARD_AUTHORIZATION: 'Bearer secret\nsecret' },
      'one line of a header',
    ],
  ])('refuses %s, and does not show it', async (_what, env, text) => {
    const { code, stdout, stderr } = await cli(['run', 'report', '--job', 'A', '--url', url], { env });
    expect([code, stderr]).toEqual([2, expect.stringContaining(text)]);
    expect(stdout + stderr).not.toContain('secret');
  });

  it.each([
    ['the key has no known job', [], 2, 'No run of a job with the key report is known: give --job.'],
    ['there is no board', ['--board', ''], 2, 'set --board or REDIS_LOCK_BOARD'],
    ['the address is not one', ['--board', 'redis://x'], 2, 'Expected --board to be a URL with http or https.'],
    ['the address has a password', ['--board', 'http://a:b@x'], 2, 'can be read by other users'],
    ['it may change nothing', ['--read-only'], 2, '`run` is not allowed with --read-only.'],
    ['the board does not answer', ['--job', 'A', '--board', 'http://127.0.0.1:1'], 3, 'cannot be reached'],
  ])('fails if %s', async (_why, more, code, text) => {
    const env = { REDIS_LOCK_BOARD: more[0] === '--board' ? '' : 'http://127.0.0.1:1/locks' };
    const ended = await cli(['run', 'report', '--url', url, ...more], { env });
    expect(ended).toEqual({ code, stdout: '', stderr: expect.stringContaining(text) });
  });
});

describe('release', () => {
  it('ends with 1 when no call holds it', async () => {
    const { code, stdout } = await cli(['release', 'order:1', '--yes', '--url', url, '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([1, { key: 'order:1', released: false, text: 'order:1 is not held.' }]);
  });

  it.each([
    ['without a terminal, even if the input is y', [], 'there is no terminal to ask on. Give --yes.'],
    ['with --read-only', ['--yes', '--read-only'], 'not allowed with --read-only'],
  ])('releases nothing %s', async (_when, more, text) => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const { code, stderr } = await cli(['release', 'order:1', '--url', url, ...more], { input: 'y\n' });
    expect([code, stderr]).toEqual([2, expect.stringContaining(text)]);
    expect(await locks.inspect('order:1')).toMatchObject({ mode: 'write' });
  });
});

describe('release in an app with a history', () => {
  it.each([
    ['the one that --by names', ['--by', 'ann'], 'ann'],
    ['the user and the host of this machine', [], `${userInfo().username}@${hostname()}`],
  ])('records the user in the history: %s', async (_who, more, by) => {
    const locks = openStoreOf(url);
    await tell(locks, { event: 'acquired', key: 'order:1' });
    await hold(locks, 'order:1');
    const { code, stdout, stderr } = await cli(['release', 'order:1', '--yes', '--url', url, '--json', ...more]);
    expect([code, stderr, JSON.parse(stdout)]).toEqual([
      0,
      '',
      { key: 'order:1', released: true, by, text: expect.stringContaining(`The history names ${by}.`) },
    ]);
    const [forced] = await locks.history.read({ limit: 10 });
    expect(forced).toMatchObject({ event: 'forced', key: 'order:1', by, pid: process.pid });
  });

  it('drops nothing that the app keeps, and makes no history for an app without one', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const without = await cli(['release', 'order:1', '--yes', '--url', url]);
    expect(without).toMatchObject({ code: 0, stdout: expect.not.stringContaining('history'), stderr: '' });
    expect(await redis.admin.exists('lock:{history}')).toBe(0);
    const old = ['id', 'x.0', 'at', Date.now() - 20 * 86_400_000, 'key', 'order:1', 'facts', '{"event":"released"}'];
    await redis.admin.xadd('lock:{history}', '1-1', ...old);
    await redis.admin.pexpire('lock:{history}', 60_000);
    await hold(locks, 'order:1');
    await cli(['release', 'order:1', '--yes', '--url', url]);
    expect(await redis.admin.pttl('lock:{history}')).toBeLessThanOrEqual(60_000);
    const entries = await locks.history.read({ limit: 10 });
    expect(entries.map(({ event }) => event)).toEqual(['forced', 'released']);
  });

  it('releases the lock also when the user has no permission to write the history', async () => {
    const locks = openStoreOf(url);
    await tell(locks, { event: 'acquired', key: 'order:1' });
    await hold(locks, 'order:1');
    await redis.admin.call('ACL', 'SETUSER', 'ops', 'on', '>pass', '~*', '&*', '+@all', '-xadd', '-xrevrange');
    const env = { REDIS_LOCK_USERNAME: 'ops', REDIS_LOCK_PASSWORD: 'pass', REDIS_LOCK_URL: url };
    const { code, stdout, stderr } = await cli(['release', 'order:1', '--yes'], { env });
    expect([code, stdout]).toEqual([0, expect.stringContaining('Released order:1.')]);
    expect(stderr).toContain('The lock is released, but the release could not be added to its history: ');
    expect(await locks.inspect('order:1')).toMatchObject({ mode: 'free' });
  });
});

describe('history', () => {
  const events = [
    { event: 'acquired', key: 'order:1', where: 'Orders.charge', note: 'order 1', ms: 0, fencingToken: 17 },
    { event: 'waited', key: 'order:1', where: 'Orders.charge', reason: 'web-2:7 Orders.charge' },
    { event: 'skipped', key: 'report', where: 'Reports.noon', reason: 'busy' },
    { event: 'forced', key: 'order:1', by: 'ann@laptop' },
    { event: 'lost', key: 'order:1', where: 'Orders.charge', ms: 65_000, reason: 'revoked', fencingToken: 17 },
    { event: 'dropped', count: 3 },
  ] as const;

  it('shows what has happened to all locks, the newest first', async () => {
    await tell(openStoreOf(url), ...events);
    const { code, stdout, stderr } = await cli(['history', '--url', url]);
    const [, ...lines] = stdout.trimEnd().split('\n');
    expect(lines.map((line) => cells(line).slice(1))).toEqual([
      ['dropped', '-', 'web-1:4321', '-', '-', '3 entries', '-'],
      ['lost', 'order:1', 'web-1:4321', 'Orders.charge', 'held 1m 5s', 'revoked', '17'],
      ['forced', 'order:1', 'web-1:4321', '-', '-', 'by ann@laptop', '-'],
      ['skipped', 'report', 'web-1:4321', 'Reports.noon', '-', 'busy', '-'],
      ['waited', 'order:1', 'web-1:4321', 'Orders.charge', '-', 'held by web-2:7 Orders.charge', '-'],
      ['acquired', 'order:1', 'web-1:4321', 'Orders.charge "order 1"', 'waited 0.0s', '-', '17'],
    ]);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('shows one lock with a key, and no more than its limit', async () => {
    await tell(openStoreOf(url), ...events.slice(0, -1));
    const { stdout } = await cli(['history', 'report', '--url', url, '--json']);
    const { entries, hasMore } = JSON.parse(stdout) as { entries: unknown[]; hasMore: boolean };
    expect(entries).toEqual([
      {
        id: expect.any(String),
        at: expect.any(String),
        event: 'skipped',
        key: 'report',
        keys: ['report'],
        host: 'web-1',
        pid: 4321,
        where: 'Reports.noon',
        reason: 'busy',
      },
    ]);
    expect(hasMore).toBe(false);
    const newest = await cli(['history', '--url', url, '--limit', '1']);
    expect(cells(newest.stdout.split('\n')[1])[1]).toBe('lost');
    expect(newest.stderr).toBe('There are older events: see --limit.\n');
  });

  it('reports what the app needs when there is no history, and ends with 1', async () => {
    for (const args of [['history'], ['history', 'order:1']]) {
      const { code, stdout, stderr } = await cli([...args, '--url', url]);
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('`history: true`')]);
    }
    await tell(openStoreOf(url), events[0]);
    const other = await cli(['history', 'order:2', '--url', url, '--json']);
    expect([other.code, JSON.parse(other.stdout)]).toEqual([1, { entries: [], hasMore: false }]);
    expect(other.stderr).toBe('The history has no event of order:2.\n');
  });
});

describe('jobs', () => {
  it('shows the last run of each job of a key, and one that continues, and nothing else', async () => {
    const locks = openStoreOf(url);
    await runJob(locks, 'reports', 'Reports.noon', 'done');
    await runJob(locks, 'reports', 'Reports.night', 'failed', { instance: 'web-2:7' });
    await hold(locks, 'order:1');
    await runJob(locks, 'sync', 'Sync.all');
    await redis.admin.set('lock:other', 'of another library');
    const { code, stdout, stderr } = await cli(['jobs', '--url', url]);
    const rows = stdout.trimEnd().split('\n').slice(1).map(cells);
    expect(rows.map(([job, key, fire, , , , outcome]) => `${job} ${key} ${fire} ${outcome}`).sort()).toEqual([
      'Reports.night reports 2026-11-26 00:00:00Z failed',
      'Reports.noon reports 2026-11-26 00:00:00Z done',
      'Sync.all sync 2026-11-26 00:00:00Z running',
    ]);
    expect(rows.find(([job]) => job === 'Sync.all')![5]).toMatch(/^\d+\.\ds so far$/);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('shows those whose keys begin with a prefix, and not more than its limit', async () => {
    const locks = openStoreOf(url);
    for (const key of ['a:1', 'a:2', 'b:1']) await runJob(locks, key, `Job.${key}`, 'done');
    const ofB = JSON.parse((await cli(['jobs', 'b:', '--url', url, '--json'])).stdout) as object;
    expect(ofB).toMatchObject({ jobs: [{ key: 'b:1', job: 'Job.b:1', outcome: 'done' }], hasMore: false });
    const one = await cli(['jobs', '--url', url, '--limit', '1']);
    expect(one.stdout.trim().split('\n')).toHaveLength(2);
    expect(one.stderr).toContain('There are more than 1 jobs');
  });

  it('ends with 1 when there is none', async () => {
    await hold(openStoreOf(url), 'order:1');
    const text = 'No run of a job with `oncePer` is remembered whose key begins with o.\n';
    expect(await cli(['jobs', 'o', '--url', url])).toEqual({ code: 1, stdout: '', stderr: text });
  });
});

const HOSTILE = 'a\x1b[2J\u009b31m\r\n\u202etxt\u0007';

describe('no control character reaches the terminal', () => {
  const facts = { key: HOSTILE, where: HOSTILE, note: HOSTILE, reason: HOSTILE, by: HOSTILE };
  const instance = 'web\x1b[31m:1';

  it.each<[string, (locks: RedisLocks) => Promise<unknown>, string[][], number]>([
    ['of a key and a holder', (locks) => hold(locks, HOSTILE, `${instance} Evil\u009b2J`), [['ls']], 2],
    ['of a lock', (locks) => hold(locks, HOSTILE, `${instance} Evil\u009b2J`), [['inspect', HOSTILE]], 5],
    [
      'of an event',
      (locks) => tell(locks, { event: 'lost', ...facts }, { event: 'waited', ...facts }, { event: 'forced', ...facts }),
      [['history'], ['history', HOSTILE]],
      4,
    ],
    ['of a job', (locks) => runJob(locks, HOSTILE, HOSTILE.replace('\n', ''), 'done', { instance }), [['jobs']], 2],
  ])('%s', async (_what, prepare, commands, lines) => {
    await prepare(openStoreOf(url));
    for (const args of [...commands, ...commands.map((one) => [...one, '--json'])]) {
      const { code, stdout, stderr } = await cli([...args, '--url', url]);
      expect([code, stdout.trimEnd().split('\n').length]).toEqual([0, args.includes('--json') ? 1 : lines]);
      expect(stdout.replaceAll('\n', '') + stderr).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      if (args.includes('--json')) expect(JSON.stringify(JSON.parse(stdout))).toContain(JSON.stringify(HOSTILE));
    }
  });
});

describe('watch', () => {
  it('does not report a held lock above the limit as gone, and follows at most the limit', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'b');
    const { end, text, ended } = startCli(['watch', '--url', url, '--interval', '100', '--limit', '1']);
    await eventually(() => text.stdout.includes('held     b'));
    for (let i = 0; i < 20; i += 1) await hold(locks, `a-${i}`);
    await eventually(() => text.stderr !== '');
    await wait(locks, 'b', 'web-2:99');
    await eventually(() => text.stdout.includes('changed  b'));
    expect(text.stdout).not.toMatch(/gone|a-/);
    await redis.admin.del('lock:b');
    await eventually(() => /gone +b\n.*held +a-/.test(text.stdout));
    end();
    const { stdout, stderr } = await ended;
    expect(stdout.match(/held /g)).toHaveLength(2);
    expect(stderr).toBe('There are more than 1 locks: see --limit, or give a prefix.\n');
  });

  it('prints an object for each change with --json', async () => {
    await hold(openStoreOf(url), 'order:1');
    const { end, text, ended } = startCli(['watch', '--url', url, '--json']);
    await eventually(() => text.stdout.endsWith('\n'));
    end();
    expect(JSON.parse((await ended).stdout)).toMatchObject({ change: 'held', lock: { key: 'order:1' } });
  });
});
