import { eventually } from '../support/waiting/eventually.js';
import { follow } from '../../scripts/follow.mjs';
import { root } from './planted.js';

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Runs a shell script as a step. */
const runStep = (script: string, limitMs: number, out: Buffer[]): Promise<number | null> =>
  follow('sh', ['-c', script], { cwd: root, limitMs, env: process.env, out });

describe('a step of the checks', () => {
  it('has the exit code and the output of its command', async () => {
    const out: Buffer[] = [];
    expect([
      await runStep('echo a; echo b >&2; exit 3', 50_000, out),
      Buffer.concat(out).toString().split('\n').sort(),
    ]).toEqual([3, ['', 'a', 'b']]);
  });

  it('ends at its limit with all that it started', async () => {
    const out: Buffer[] = [];
    expect(await runStep('sleep 1000 & echo $!; wait', 3_000, out)).toBeNull();
    const pid = Number(Buffer.concat(out).toString());
    expect(pid).toBeGreaterThan(1);
    await eventually(() => !isRunning(pid));
  });
});
