import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { closeAll, freshKey } from '../support/apps/lock-app.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { cli, startProcess } from './support/cli.js';
import { hold, openStoreOf, wait } from './support/locks.js';

let url: string;
let admin: Awaited<ReturnType<typeof ownRedis>>['admin'];

beforeEach(async () => {
  ({ url, admin } = await ownRedis());
});

afterEach(closeAll);

/** The cells of a line of a table. */
const cells = (line = ''): string[] => line.trim().split(/ {2,}/);

describe('ls', () => {
  it('shows each lock with its holder, its method, its lease and its waiters', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    await wait(locks, 'order:1', 'web-2:99 OrdersService.charge');
    await hold(locks, 'report', 'web-1:4321', { mode: 'read' });
    await hold(locks, 'report', 'web-3:7', { mode: 'read' });
    const { code, stdout, stderr } = await cli(['ls', '--url', url]);
    const [titles, first, second, ...more] = stdout.split('\n');
    expect(cells(titles)).toEqual(['KEY', 'MODE', 'HOLDER', 'METHOD', 'HELD SINCE', 'LEASE', 'WAITERS']);
    expect(cells(first)).toEqual([
      'order:1',
      'write',
      'web-1:4321',
      'OrdersService.charge',
      expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(.+\)$/),
      expect.stringMatching(/^(9m 5\ds|10m 0s)$/),
      '1',
    ]);
    expect(cells(second)).toEqual([
      'report',
      'read',
      expect.stringMatching(/^web-\d:\d+ \(\+1\)$/),
      '-',
      expect.anything(),
      expect.anything(),
      '0',
    ]);
    expect(more).toEqual(['']);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('prints JSON for scripts', async () => {
    await hold(openStoreOf(url), 'order:1');
    const { code, stdout } = await cli(['ls', '--url', url, '--json']);
    const { locks, hasMore } = JSON.parse(stdout) as { locks: unknown[]; hasMore: boolean };
    expect(locks).toMatchObject([
      { key: 'order:1', mode: 'write', holders: [{ host: 'web-1', pid: 4321 }], waiters: 0 },
    ]);
    expect([hasMore, code]).toEqual([false, 0]);
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

  it('lets no control character of a key or of a holder reach the terminal', async () => {
    const hostile = 'a\x1b[2J\u009b31m\r\n\u202etxt\u0007';
    await hold(openStoreOf(url), hostile, 'web\x1b[31m:1 Evil\u009b2J');
    for (const args of [['ls'], ['ls', '--json'], ['inspect', hostile], ['inspect', hostile, '--json']]) {
      const { code, stdout, stderr } = await cli([...args, '--url', url]);
      expect(code).toBe(0);
      expect(stdout.replaceAll('\n', '') + stderr).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
    const { stdout } = await cli(['inspect', hostile, '--url', url, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ key: hostile });
  });
});

describe('a user with the rights that docs/security.md gives to one who only looks', () => {
  it('can list and inspect, and release nothing', async () => {
    const document = readFileSync(join(process.cwd(), 'docs', 'security.md'), 'utf8');
    const [, rights = ''] = /^`(~lock:\* .*)`$/m.exec(document) ?? [];
    await hold(openStoreOf(url), 'order:1');
    await admin.call('ACL', 'SETUSER', 'looker', 'reset', 'on', '>pass', ...rights.split(' '));
    const env = { REDIS_LOCK_USERNAME: 'looker', REDIS_LOCK_PASSWORD: 'pass', REDIS_LOCK_URL: url };
    for (const args of [['ls'], ['inspect', 'order:1']]) {
      expect(await cli(args, { env })).toMatchObject({ code: 0, stderr: '' });
    }
    expect(await admin.call('ACL', 'LOG')).toEqual([]);
    const { code, stderr } = await cli(['release', 'order:1', '--yes'], { env });
    expect([code, stderr]).toEqual([3, expect.stringMatching(/can't run this command|NOPERM/)]);
  });
});

describe('inspect', () => {
  it('shows the holders of one lock', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1', 'web-1:4321 OrdersService.charge', { owner: 'order-1' });
    const { code, stdout } = await cli(['inspect', 'order:1', '--url', url]);
    const [key, summary, , titles, holder] = stdout.split('\n');
    expect(key).toBe('order:1');
    expect(summary).toMatch(/^write, 1 holder, 0 waiters; last fencing token: \d{16}$/);
    expect(cells(titles)).toEqual(['HOLDER', 'METHOD', 'MODE', 'HELD SINCE', 'LEASE', 'TOKEN', 'OWNER']);
    expect(cells(holder)).toMatchObject({ 0: 'web-1:4321', 1: 'OrdersService.charge', 6: 'order-1' });
    expect(code).toBe(0);
  });

  it('shows how many permits of a semaphore are taken', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'api', 'web-1:4321', { mode: 'read', permits: 3, take: 2 });
    const { stdout } = await cli(['inspect', 'api', '--url', url]);
    expect(stdout).toContain('\nread, 1 holder, 2 of 3 permits taken, 0 waiters; ');
    await locks.setPermits('api', 1);
    expect((await cli(['inspect', 'api', '--url', url])).stdout).toContain('2 of 1 permit taken');
  });

  it('ends with 1 for a lock that is free, and changes nothing', async () => {
    const { code, stdout } = await cli(['inspect', 'nobody', '--url', url]);
    expect(stdout).toContain('free, 0 waiters; last fencing token: none is remembered');
    expect([code, await admin.dbsize()]).toEqual([1, 0]);
  });

  it('refuses a key that is none', async () => {
    const { code, stderr } = await cli(['inspect', 'a'.repeat(2_000), '--url', url]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('at most 1024 bytes')]);
  });
});

describe('release', () => {
  it('takes the lock away with --yes', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const { code, stdout } = await cli(['release', 'order:1', '--yes', '--url', url]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('Released order:1. Its holders are told')]);
    expect(await locks.inspect('order:1')).toMatchObject({ mode: 'free' });
  });

  it('ends with 1 when nobody holds it', async () => {
    const { code, stdout } = await cli(['release', 'order:1', '--yes', '--url', url, '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([1, { key: 'order:1', released: false, text: 'Nobody holds order:1.' }]);
  });

  it.each([
    ['without a terminal, even if somebody says y', [], 'there is no terminal to ask on. Give --yes.'],
    ['with --read-only', ['--yes', '--read-only'], 'not allowed with --read-only'],
  ])('releases nothing %s', async (_when, more, text) => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const { code, stderr } = await cli(['release', 'order:1', '--url', url, ...more], { input: 'y\n' });
    expect([code, stderr]).toEqual([2, expect.stringContaining(text)]);
    expect(await locks.inspect('order:1')).toMatchObject({ mode: 'write' });
  });

  it('is not allowed by REDIS_LOCK_READ_ONLY either', async () => {
    const env = { REDIS_LOCK_URL: url, REDIS_LOCK_READ_ONLY: '1' };
    expect(await cli(['release', freshKey(), '--yes'], { env })).toMatchObject({ code: 2 });
  });
});

describe('watch', () => {
  it('prints a line for each change, and ends with Ctrl-C', async () => {
    const locks = openStoreOf(url);
    const { child, text, ended } = await startProcess(['watch', '--url', url, '--interval', '100']);
    const lines = (): string[] => text.stdout.split('\n');
    const holder = await hold(locks, 'order:1');
    await eventually(() =>
      lines()[0]?.includes('held     order:1: write, 1 holder, 0 waiters by web-1:4321 OrdersService.charge'),
    );
    const waiter = await wait(locks, 'order:1', 'web-2:99');
    await eventually(() => lines()[1]?.includes('changed  order:1: write, 1 holder, 1 waiter'));
    for (const attempt of [waiter, holder])
      await locks.release({ key: 'order:1', attempt, holdAtLeastMs: 0, leaseMs: 600_000 }, 10_000);
    await eventually(() => lines()[2]?.includes('gone     order:1'));
    child.kill('SIGINT');
    expect(await ended()).toMatchObject({ code: 0, stderr: '' });
  });

  it('prints an object for each change with --json', async () => {
    await hold(openStoreOf(url), 'order:1');
    const { child, text, ended } = await startProcess(['watch', '--url', url, '--json']);
    await eventually(() => text.stdout.endsWith('\n'));
    child.kill('SIGTERM');
    expect(JSON.parse((await ended()).stdout)).toMatchObject({ change: 'held', lock: { key: 'order:1' } });
  });
});
