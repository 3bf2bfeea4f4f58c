import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FullLockStore } from '../../lib/core/store/capabilities.js';
import { RedisLockStore } from '../../lib/redis/redis-lock-store.js';
import { closeAll } from '../support/apps/lock-app.js';
import { proxyTo } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { screen } from './support/cli.js';
import { fileRedis } from './support/file-redis.js';
import { hold, openStoreOf } from './support/locks.js';
import { silentServer } from './support/silent-server.js';

const redis = fileRedis();
let url: string;
let locks: Omit<FullLockStore, 'setPermits'>;

beforeEach(() => {
  ({ url } = redis);
  locks = openStoreOf(url);
});

afterEach(closeAll);

const BOLD = '\x1b[1m';
const PLAIN = '\x1b[0m';
const HIDE = '\x1b[?1049h\x1b[?25l';
const SHOW = '\x1b[?25h\x1b[?1049l';

describe('release on a terminal', () => {
  it.each([
    ['y\n', 0, 'free'],
    ['Yes\n', 0, 'free'],
    ['n\n', 1, 'write'],
    ['\n', 1, 'write'],
    ['yy\n', 1, 'write'],
    ['\x04', 1, 'write'],
  ])('shows the holder of the lock, asks, and accepts %j as an answer', async (keys, code, mode) => {
    await hold(locks, 'order:1');
    const { text, type, run } = screen();
    const ended = run('release', 'order:1', '--url', url);
    await eventually(() => text.stderr.includes('[y/N]'));
    expect(text.stdout).toContain('web-1:4321');
    type(keys);
    expect(await ended).toBe(code);
    expect(await locks.inspect('order:1')).toMatchObject({ mode });
    expect(text.stdout).toContain(code === 0 ? 'Released order:1.' : 'Nothing was released.');
  });

  it('releases nothing when the lock has changed hands before the answer', async () => {
    const first = await hold(locks, 'order:1');
    const { text, type, run } = screen();
    const ended = run('release', 'order:1', '--url', url);
    await eventually(() => text.stderr.includes('[y/N]'));
    await locks.release({ key: 'order:1', attempt: first, holdAtLeastMs: 0, leaseMs: 600_000 }, 10_000);
    await hold(locks, 'order:1', 'web-2:1');
    type('y\n');
    expect(await ended).toBe(1);
    expect(text.stdout).toContain('has changed hands');
    expect(await locks.inspect('order:1')).toMatchObject({ holders: [{ host: 'web-2' }] });
  });

  it('spares a holder that comes after the last look', async () => {
    const first = await hold(locks, 'order:1');
    const original = Reflect.get(RedisLockStore.prototype, 'forceRelease');
    const spy = jest.spyOn(RedisLockStore.prototype, 'forceRelease').mockImplementation(async function (
      this: RedisLockStore,
      ...args
    ) {
      await locks.release({ key: 'order:1', attempt: first, holdAtLeastMs: 0, leaseMs: 600_000 }, 10_000);
      await hold(locks, 'order:1', 'web-2:1');
      return original.apply(this, args);
    });
    try {
      const { text, type, run } = screen();
      const ended = run('release', 'order:1', '--url', url);
      await eventually(() => text.stderr.includes('[y/N]'));
      type('y\n');
      expect(await ended).toBe(1);
      expect(text.stdout).toContain('nothing was released');
      expect(await locks.inspect('order:1')).toMatchObject({ holders: [{ host: 'web-2' }] });
    } finally {
      spy.mockRestore();
    }
  });
});

describe('watch on a terminal', () => {
  it('repaints the table, and restores the screen', async () => {
    await hold(locks, 'order:1');
    const { text, end, run } = screen();
    const ended = run('watch', '--url', url, '--interval', '100');
    await eventually(() => text.stdout.includes('order:1'));
    await hold(locks, 'order:2');
    await eventually(() => text.stdout.includes('order:2'));
    end();
    expect(await ended).toBe(0);
    expect(text.stdout.startsWith(HIDE)).toBe(true);
    expect(text.stdout.endsWith(SHOW)).toBe(true);
    expect(text.stdout.split('\x1b[H\x1b[2J').at(-1)).toContain('every 100 ms; Ctrl-C ends');
  });

  it('restores the screen at once with Ctrl-C, also while Redis does not answer', async () => {
    const proxy = await proxyTo(url);
    await hold(locks, 'order:1');
    const { text, end, run } = screen();
    const ended = run('watch', '--url', proxy.url, '--interval', '100', '--timeout', '600000');
    await eventually(() => text.stdout.includes('order:1'));
    let isAsked = false;
    proxy.dropNextReply((command) => {
      if (command.startsWith('scan ')) proxy.blackhole((isAsked = true));
      return false;
    });
    await eventually(() => isAsked);
    end();
    await nextTurn();
    expect(text.stdout.endsWith(SHOW)).toBe(true);
    expect(await ended).toBe(0);
    expect(text.stdout.endsWith(SHOW)).toBe(true);
  });

  it('ends with Ctrl-C before the first answer', async () => {
    const { text, end, run } = screen();
    const ended = run('watch', '--url', await silentServer(), '--timeout', '600000');
    end();
    expect(await ended).toBe(0);
    expect(text).toEqual({ stdout: '', stderr: '' });
  });

  it('prints lines without escapes on a dumb terminal', async () => {
    await hold(locks, 'order:1');
    const { text, end, run } = screen({ env: { TERM: 'dumb' } });
    const ended = run('watch', '--url', url, '--interval', '100');
    await eventually(() => text.stdout.includes('order:1'));
    end();
    expect(await ended).toBe(0);
    expect(text.stdout).not.toContain('\x1b');
  });

  it('shows no more than fits', async () => {
    for (let i = 10; i < 30; i += 1) await hold(locks, `a-${i}`);
    const { text, end, run } = screen({ columns: 60, rows: 10 });
    const ended = run('watch', '--url', url, '--interval', '100');
    await eventually(() => text.stdout.includes('a-10'));
    end();
    await ended;
    const [, painted = ''] = text.stdout.replaceAll(BOLD, '').replaceAll(PLAIN, '').split('\x1b[H\x1b[2J');
    const lines = painted.replace(SHOW, '').trimEnd().split('\n');
    expect(lines.length).toBeLessThan(10);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
  });
});

describe('a table on a terminal', () => {
  it('is cut to its width, and has bold titles', async () => {
    await hold(locks, `order:${'x'.repeat(100)}`);
    const { text, run } = screen({ columns: 90 });
    expect(await run('ls', '--url', url)).toBe(0);
    const [titles, line] = text.stdout.split('\n');
    expect(titles!.startsWith(`${BOLD}KEY `)).toBe(true);
    expect(titles!.endsWith(PLAIN)).toBe(true);
    expect(line).toMatch(/^order:x+… /);
    expect(line!.length).toBeLessThanOrEqual(90);
  });

  const PLAIN_ONES: readonly Readonly<Record<string, string>>[] = [{ NO_COLOR: '1' }, { TERM: 'dumb' }];

  it.each(PLAIN_ONES)('has no styles with %j', async (env) => {
    await hold(locks, 'order:1');
    const { text, run } = screen({ env });
    await run('ls', '--url', url);
    expect(text.stdout).not.toContain('\x1b');
  });
});
