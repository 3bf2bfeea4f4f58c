import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { UsageError, flag, oneOf, positive, readOptions, text, whole } from '../../scripts/command.mjs';
import { root } from './planted.js';

const OPTIONS = { seconds: positive(60), seed: whole(0, 100), area: oneOf(['a', 'b']), out: text, keep: flag };

describe('the options of a command', () => {
  it('have their values, or their defaults', () => {
    const all = { seconds: 1.5, seed: 0, area: 'b', out: 'x', keep: true };
    const args = ['--seconds', '1.5', '--seed=0', '--area', 'b', '--out', 'x', '--keep', 'word'];
    expect(readOptions(OPTIONS, args)).toEqual({ values: all, positionals: ['word'] });
    expect(readOptions(OPTIONS, []).values).toEqual({ seconds: 60, keep: false });
  });

  it.each([
    [['--seconds', 'abc'], '--seconds abc: expected a number greater than 0.'],
    [['--seconds', '0'], '--seconds 0: expected a number greater than 0.'],
    [['--seconds', '1e9999'], '--seconds 1e9999: expected a number greater than 0.'],
    [['--seed', 'x'], '--seed x: expected a whole number from 0 to 100.'],
    [['--seed', '101'], '--seed 101: expected a whole number from 0 to 100.'],
    [['--seed', '1.5'], '--seed 1.5: expected a whole number from 0 to 100.'],
    [['--seed='], '--seed : expected a whole number from 0 to 100.'],
    [['--area', 'c'], '--area c: expected a or b.'],
    [['--unknown'], "Unknown option '--unknown': expected --seconds, --seed, --area, --out, or --keep."],
    [['--seed'], "Option '--seed <value>' argument missing: expected --seconds, --seed, --area, --out, or --keep."],
  ])('are refused when they are %j', (args, message) => {
    expect(() => readOptions(OPTIONS, args)).toThrow(new UsageError(message));
  });
});

/** Runs a command to its end; it must not start anything. */
const endOf = (command: string, args: readonly string[]): Promise<{ status: unknown; stderr: string }> =>
  new Promise((resolve) => {
    const file = join(root, 'scripts', `${command}.mjs`);
    execFile(process.execPath, [file, ...args], { cwd: root, timeout: 60_000 }, (error, _stdout, stderr) =>
      resolve({ status: error ? error.code : 0, stderr: stderr.trim() }),
    );
  });

describe('a command with wrong arguments', () => {
  it.each([
    ['chaos --topology foo', '--topology foo: expected single, sentinel, cluster, or quorum.'],
    ['chaos --client redlock --topology cluster', '--topology cluster: expected another one for --client redlock.'],
    ['chaos --min-replicas 1', '--min-replicas 1: expected 0 at most for nestjs-redis-lock on single.'],
    ['chaos single', 'single: expected options only, such as --help.'],
    ['soak --minutes 3', '--minutes 3: expected at least 16, for 16 measurements.'],
    ['soak --plant x', '--plant x: expected locks, subscriber, or key.'],
    ['fuzz --case 12', '--case 12: expected with --area and --seed, and without --seconds.'],
    ['fuzz --seconds abc', '--seconds abc: expected a number greater than 0.'],
    ['simulate --seconds abc', '--seconds abc: expected a number greater than 0.'],
    ['simulate --seeds 5', '--seeds 5: expected with --bugs.'],
    ['simulate --bugs --only nope', '--only nope: expected a part of the name of a bug.'],
    ['model --mutants --seconds 5', '--mutants: expected without other options.'],
    ['model quorum', 'quorum: expected options only, such as --help.'],
  ])(
    'reports it and ends with status 1: %s',
    async (words, message) => {
      const [command, ...args] = words.split(' ');
      expect(await endOf(command!, args)).toEqual({ status: 1, stderr: message });
    },
    60_000,
  );
});

describe('a command with its own Redis', () => {
  it('is notified when its terminal is closed, and leaves no Redis behind', async () => {
    const { REDIS_URL: _given, ...env } = process.env;
    const work = `process.on('SIGHUP', () => process.exit(7)); setInterval(() => {}, 1e6); console.log(process.env.REDIS_URL);`;
    const args = [join(root, 'scripts', 'redis.mjs'), '--', process.execPath, '-e', work];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'], detached: true });
    const [url] = (await once(child.stdout, 'data')) as [Buffer];
    child.kill('SIGHUP');
    expect(await once(child, 'exit')).toEqual([7, null]);
    const socket = connect(Number(new URL(String(url).trim()).port), '127.0.0.1');
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNREFUSED');
  }, 60_000);
});
