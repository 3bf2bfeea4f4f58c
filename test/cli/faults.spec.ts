import { freePorts } from '../../scripts/redis.mjs';
import { closeAll } from '../support/apps/lock-app.js';
import { ownRedis, proxyTo, startAgain } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { cli, startCli } from './support/cli.js';
import { hold, openStoreOf } from './support/locks.js';
import { silentServer } from './support/silent-server.js';

afterEach(closeAll);

const COMMANDS = [['ls'], ['inspect', 'a'], ['release', 'a', '--yes'], ['watch'], ['doctor']];

describe('an absent server', () => {
  it.each(COMMANDS)('ends %s with 3, and is named', async (...args) => {
    const [port] = await freePorts(1);
    const { code, stderr } = await cli([...args, '--url', `redis://127.0.0.1:${port}`]);
    expect([code, stderr]).toEqual([3, expect.stringContaining(`ECONNREFUSED 127.0.0.1:${port}`)]);
  });

  it.each([
    ['--json', {}],
    ['--timeout=5000', { REDIS_LOCK_JSON: 'true' }],
  ])('is also an error in JSON, with %s and %j', async (option, env) => {
    const [port] = await freePorts(1);
    const { code, stdout } = await cli(['ls', option, '--url', `redis://127.0.0.1:${port}`], { env });
    expect([code, JSON.parse(stdout)]).toEqual([3, { error: expect.stringContaining('ECONNREFUSED'), exitCode: 3 }]);
  });
});

describe('a server that accepts and never answers', () => {
  it.each(COMMANDS)(
    'ends %s with 3 within --timeout',
    async (...args) => {
      const url = await silentServer();
      const { code, stderr } = await cli([...args, '--url', url, '--timeout', '100']);
      expect([code, stderr]).toEqual([3, expect.stringMatching(/within 100 ms|Is Redis reachable|Redis/)]);
    },
    20_000,
  );
});

describe('--timeout', () => {
  it('limits each command of ls, which sends many between two locks', async () => {
    const { url, admin } = await ownRedis();
    await hold(openStoreOf(url), 'a');
    // One answer of SCAN looks at a thousand keys.
    await admin.eval("for i = 1, 25000 do redis.call('SET', 'foreign:' .. i, '1') end", 0);
    const proxy = await proxyTo(url);
    proxy.delayMs = 100;
    const { code, stdout } = await cli(['ls', '--url', proxy.url, '--timeout', '1000']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('web-1:4321')]);
  });
});

describe('watch', () => {
  it('continues while the server is away, and reports it once', async () => {
    const server = await ownRedis();
    await hold(openStoreOf(server.url), 'a');
    const { end, text, ended } = startCli(['watch', '--url', server.url, '--interval', '100']);
    await eventually(() => text.stdout.includes('held     a'));
    await server.stop();
    await eventually(() => text.stderr !== '', { timeoutMs: 20_000 });
    await startAgain(server);
    await eventually(() => text.stdout.includes('gone     a'), { timeoutMs: 20_000 });
    end();
    expect(await ended).toMatchObject({ code: 0 });
  });
});

describe('a password', () => {
  const SECRET = 's3cret-password';

  it.each([
    [['ls', '--url', `redis://:${SECRET}@127.0.0.1:1`]],
    [['ls', '--quorum', `redis://:${SECRET}@127.0.0.1:1,redis://:${SECRET}@127.0.0.1:2`]],
    [['ls', '--password', SECRET]],
    [[`redis://:${SECRET}@127.0.0.1:1`]],
  ])('is refused on the command line, and not repeated: %j', async (args) => {
    const { code, stdout, stderr } = await cli([...args, '--json']);
    expect(code).toBe(2);
    expect(stdout + stderr).not.toContain(SECRET);
  });

  const WRONG: readonly Readonly<Record<string, string>>[] = [
    { REDIS_LOCK_PASSWORD: SECRET },
    { REDIS_LOCK_URL: `redis://:${SECRET}@HOST` },
  ];

  it.each(WRONG)('that is wrong does not get into the output: %j', async (given) => {
    const { url, admin } = await ownRedis();
    await admin.config('SET', 'requirepass', 'another one');
    const place = (given['REDIS_LOCK_URL'] ?? url).replace('HOST', new URL(url).host);
    const env = { ...given, REDIS_LOCK_URL: place };
    for (const args of [['ls'], ['ls', '--json'], ['doctor', '--json']]) {
      const { code, stdout, stderr } = await cli(args, { env });
      expect([code, stderr]).toEqual([3, expect.stringContaining('WRONGPASS')]);
      expect(stdout + stderr).not.toContain(SECRET);
    }
  });

  it('comes from the environment', async () => {
    const { url, admin } = await ownRedis();
    await admin.config('SET', 'requirepass', SECRET);
    const { code, stderr } = await cli(['ls'], { env: { REDIS_LOCK_URL: url, REDIS_LOCK_PASSWORD: SECRET } });
    expect([code, stderr]).toEqual([1, 'No lock is held or waited for.\n']);
  });
});
