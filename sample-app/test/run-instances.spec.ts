import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { eventuallyPasses } from '../../test/support/waiting/eventually.js';
import { cleanUp, hasEnded, isRunning, kill, later, sampleApp, temporaryFolder } from './support/processes.js';

interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** The instances that it started. */
  readonly pids: () => number[];
  readonly ended: Promise<number | null>;
}

/** Runs the built runner as `npm start` does, in a process group of its own, as a shell would. */
function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Run {
  const child = spawn(process.execPath, [join(sampleApp, 'dist', 'run-instances.js'), ...args], {
    // A runner that is killed cannot remove its folder.
    env: { ...process.env, TMPDIR: temporaryFolder(), ...env },
    detached: true,
  });
  later(() => kill(child));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)));
  const pids = () => [...output.matchAll(/started with the pid (\d+)/g)].map(([, pid]) => Number(pid));
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  return { child, output: () => output, pids, ended };
}

async function expectNothingLeft({ child, pids, output }: Run): Promise<void> {
  expect(hasEnded(child)).toBe(true);
  expect(pids()).toHaveLength(3);
  await eventuallyPasses(() => expect(pids().filter(isRunning)).toEqual([]), { timeoutMs: 20_000 });
  expect(output()).not.toMatch(/ERROR|Error:/);
}

/** Waits until the runner has printed a match; a failure shows what it printed instead. */
const printed = ({ output }: Run, pattern: RegExp): Promise<void> =>
  eventuallyPasses(() => expect(output()).toMatch(pattern), { timeoutMs: 40_000 });

const allReady = /(Ready at[^]*){3}/;

describe('the runner of three instances', () => {
  afterEach(cleanUp);

  it('ends by itself after the requested fires, each drawn once, and leaves no process behind', async () => {
    const three = run(['--fires', '3']);
    expect([await three.ended, three.output()]).toEqual([0, expect.stringContaining('Checked: each of 3 fires')]);
    expect(three.output().match(/drew 10 winners \(fencing token \d+\), [A-C] and [A-C] skipped/g)).toHaveLength(3);
    await expectNothingLeft(three);
  }, 120_000);

  it('finds the fault when the lottery runs without its lock', async () => {
    const one = run(['--fires', '1'], { LOTTERY_UNLOCKED: '1' });
    expect([await one.ended, one.output()]).toEqual([1, expect.stringMatching(/was drawn 3 times/)]);
    await expectNothingLeft(one);
  }, 120_000);

  it('ends on Ctrl-C, which the instances also receive', async () => {
    const endless = run([]);
    await printed(endless, /drew 10 winners/);
    process.kill(-endless.child.pid!, 'SIGINT');
    expect([await endless.ended, endless.output()]).toEqual([0, expect.any(String)]);
    await expectNothingLeft(endless);
  }, 120_000);

  it('leaves no instance running when it is killed', async () => {
    const endless = run([]);
    await printed(endless, allReady);
    endless.child.kill('SIGKILL');
    await endless.ended;
    await expectNothingLeft(endless);
  }, 120_000);

  it('continues with two instances when one is killed', async () => {
    const endless = run([]);
    // All instances take part from the first fire on that is printed.
    await printed(endless, /drew 10 winners/);
    process.kill(endless.pids()[0]!, 'SIGKILL');
    await printed(endless, /drew 10 winners \(fencing token \d+\), [BC] skipped/);
    endless.child.kill('SIGTERM');
    expect(await endless.ended).toBe(0);
    await expectNothingLeft(endless);
  }, 120_000);
});
