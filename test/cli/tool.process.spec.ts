import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from '../../scripts/redis.mjs';
import { closeAll } from '../support/apps/lock-app.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { type Ended, startProcess } from './support/cli.js';
import { hold, openStoreOf } from './support/locks.js';
import { silentServer } from './support/silent-server.js';

afterEach(closeAll);

const ended = async (...call: Parameters<typeof startProcess>): Promise<Ended> => (await startProcess(...call)).ended();

describe('the tool as a process', () => {
  it('prints the version of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(process.cwd(), 'package.json'), 'utf8')) as { version: string };
    expect(await ended(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('ends with 0 when it has found something, and with 1 when it has not', async () => {
    const { url } = await ownRedis();
    await hold(openStoreOf(url), 'order:1');
    const [found, nothing] = await Promise.all([ended(['ls', '--url', url]), ended(['ls', 'x', '--url', url])]);
    expect(found).toMatchObject({ code: 0, stdout: expect.stringContaining('order:1'), stderr: '' });
    expect(nothing).toMatchObject({ code: 1, stdout: '' });
  });

  it('takes its settings from the environment, and ends with 2 for one that is wrong', async () => {
    const { url } = await ownRedis();
    await hold(openStoreOf(url, { keyPrefix: 'app:' }), 'order:1');
    const env = { REDIS_LOCK_URL: url, REDIS_LOCK_PREFIX: 'app:' };
    const [right, wrong] = await Promise.all([
      ended(['ls', '--json'], { env }),
      ended(['ls', '--json'], { env: { ...env, REDIS_LOCK_TIMEOUT: 'soon' } }),
    ]);
    expect([right.code, JSON.parse(right.stdout)]).toMatchObject([0, { locks: [{ key: 'order:1' }] }]);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('REDIS_LOCK_TIMEOUT') });
  });

  it('ends with 3 without a server, and when a server never answers', async () => {
    const [port] = await freePorts(1);
    const [away, silent] = await Promise.all([
      ended(['ls', '--url', `redis://127.0.0.1:${port}`]),
      ended(['doctor', '--timeout', '500', '--url', await silentServer()]),
    ]);
    expect(away).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('ECONNREFUSED') });
    expect(silent).toMatchObject({ code: 3, stdout: '' });
  });

  it('restores the screen while it is stopped by Ctrl-Z, and takes it again when it continues', async () => {
    const { url } = await ownRedis();
    await hold(openStoreOf(url), 'order:1');
    const args = ['watch', '--url', url, '--interval', '3600000'];
    const { child, text, ended: end } = await startProcess(args, { isScreen: true });
    const [taken, givenBack] = ['\x1b[?1049h', '\x1b[?1049l'];
    await eventually(() => text.stdout.includes('order:1'));
    child.kill('SIGTSTP');
    await eventually(() =>
      execFileSync('ps', ['-o', 'stat=', '-p', String(child.pid)], { encoding: 'utf8' }).startsWith('T'),
    );
    await eventually(() => text.stdout.endsWith(givenBack));
    child.kill('SIGCONT');
    await eventually(() => text.stdout.split(taken).at(2)?.includes('order:1'));
    child.kill('SIGINT');
    expect(await end()).toMatchObject({ code: 0, stdout: expect.stringMatching(/1049l$/) });
  });

  it.each(['SIGINT', 'SIGTERM', 'EPIPE'] as const)('ends with 0 when it watches until %s', async (how) => {
    const { url } = await ownRedis();
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const { child, text, ended: end } = await startProcess(['watch', '--url', url, '--interval', '100', '--json']);
    await eventually(() => text.stdout.includes('held'));
    if (how !== 'EPIPE') child.kill(how);
    else child.stdout.destroy();
    // It writes, and gets the error that its output is closed.
    await hold(locks, 'order:2');
    expect(await end()).toMatchObject({ code: 0, stderr: '' });
  });
});
