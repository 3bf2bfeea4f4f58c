import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMANDS } from '../../lib/cli/settings.js';
import { type RedisLocks } from '../../lib/redis/open-store.js';
import { closeAll } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { startBoard } from './support/board.js';
import { cli, startCli } from './support/cli.js';
import { fileRedis } from './support/file-redis.js';
import { hold, openStoreOf, runJob, tell, wait } from './support/locks.js';

const text = readFileSync(join(process.cwd(), 'docs', 'cli.md'), 'utf8');

/** The examples: a command, and what it prints. */
const EXAMPLES = [...text.matchAll(/^```console\n\$ nestjs-redis-lock (.*)\n([^]*?)^```$/gm)].map(
  ([, command = '', output = '']) => ({ command, output }),
);

/** What differs from run to run. Columns are as wide as their cells. */
const sameEachTime = (output: string): string =>
  output
    .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, '<time>')
    .replaceAll(/\b\d+(\.\d+)? ?(ms|[dhms])\b( \d+[hms]\b)?/g, '<duration>')
    .replaceAll(/\b\d{16}\b/g, '<token>')
    .replaceAll(/127\.0\.0\.1:\d+/g, '<address>')
    .replaceAll(/(Redis|Valkey) \d+\.\d+\.\d+/g, '<server>')
    .replaceAll(/ {2,}/g, '  ')
    .trim();

const redis = fileRedis();
let url: string;
let locks: RedisLocks;

/** What the document shows. */
beforeEach(async () => {
  ({ url } = redis);
  locks = openStoreOf(url);
  await hold(locks, 'order:17', 'web-1:4321 OrdersService.charge');
  await wait(locks, 'order:17', 'web-2:977 OrdersService.charge');
  await hold(locks, 'reports', 'web-1:4321 Reports.read', { mode: 'read' });
  await runJob(locks, 'report:night', 'Reports.night', 'done');
  // Jobs are shown in the order in which they began.
  const began = Date.now();
  await eventually(() => Date.now() > began + 1);
  await runJob(locks, 'report:noon', 'Reports.noon', 'failed', { instance: 'web-2:977' });
  const order = { key: 'order:17', where: 'OrdersService.charge' };
  await tell(
    locks,
    { event: 'skipped', key: 'report:noon', where: 'Reports.noon', reason: 'claimed' },
    { event: 'acquired', ...order, ms: 0, fencingToken: 1_795_651_884_373_290 },
    { event: 'waited', ...order, reason: 'web-1:4321 OrdersService.charge' },
  );
});

afterEach(closeAll);

describe('docs/cli.md', () => {
  it('has examples of all commands', () => {
    const commands = EXAMPLES.map(({ command }) => command.split(' ')[0]);
    expect(new Set(commands)).toEqual(new Set([...Object.keys(COMMANDS), '--help']));
  });

  it.each(EXAMPLES.filter(({ command }) => !command.startsWith('watch')))(
    'shows what `$command` prints',
    async ({ command, output }) => {
      const { address } = await startBoard(200);
      const env = { REDIS_LOCK_URL: url, REDIS_LOCK_BOARD: `http://${address}` };
      const { stdout, stderr } = await cli(command.split(' '), { env });
      expect(sameEachTime(stdout)).toBe(sameEachTime(output));
      expect(stderr).toBe('');
    },
  );

  it('shows what `watch` prints', async () => {
    const { command, output } = EXAMPLES.find((one) => one.command.startsWith('watch'))!;
    const env = { REDIS_LOCK_URL: url };
    const { end, text: printed, ended } = startCli([...command.split(' '), '--interval', '100'], { env });
    const lines = (count: number) => eventually(() => printed.stdout.split('\n').length > count);
    await lines(1);
    const attempt = await hold(locks, 'order:18', 'web-3:12 OrdersService.charge');
    await lines(2);
    await locks.release({ key: 'order:18', attempt, holdAtLeastMs: 0, leaseMs: 600_000 }, 10_000);
    await lines(3);
    end();
    expect(sameEachTime((await ended).stdout)).toBe(sameEachTime(output));
  });
});

describe('the documents', () => {
  it('name only commands that the tool has', () => {
    const docs = join(process.cwd(), 'docs');
    const pages = readdirSync(docs).filter((name) => name.endsWith('.md'));
    const files = [join(process.cwd(), 'README.md'), ...pages.map((name) => join(docs, name))];
    const named = files.flatMap((file) => [...readFileSync(file, 'utf8').matchAll(/npx nestjs-redis-lock (\w+)/g)]);
    expect(new Set(named.map(([, command]) => command))).toEqual(new Set(Object.keys(COMMANDS)));
  });
});
