import { readdirSync } from 'node:fs';
import { cleanUp, isRunning, later } from './support/processes.js';
import { allReady, expectNothingLeft, printed, run } from './support/runner.js';

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

  it('leaves no instance running when it is killed while one is frozen', async () => {
    const endless = run([]);
    await printed(endless, allReady);
    const frozen = endless.pids()[0]!;
    process.kill(frozen, 'SIGSTOP');
    later(() => isRunning(frozen) && process.kill(frozen, 'SIGKILL'));
    endless.child.kill('SIGKILL');
    await endless.ended;
    await expectNothingLeft(endless);
  }, 120_000);

  it('ends when its terminal is closed, to which it can no longer print', async () => {
    const endless = run([]);
    await printed(endless, allReady);
    for (const stream of [endless.child.stdout, endless.child.stderr]) stream!.destroy();
    process.kill(-endless.child.pid!, 'SIGHUP');
    expect(await endless.ended).toBe(0);
    await expectNothingLeft(endless);
    expect(readdirSync(endless.folder)).toEqual([]);
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
