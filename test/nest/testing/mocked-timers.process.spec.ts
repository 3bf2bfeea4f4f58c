import { once } from 'node:events';
import { closeAll } from '../../support/apps/lock-app.js';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';

afterEach(closeAll);

describe('timers that a test runner replaces in the module of Node', () => {
  it('do not block the locks in memory, nor a ManualClock, in an app that loads the package by `require`', async () => {
    await buildPackage();
    const { child, gone } = forkScript('mocked-timers-process.mjs', '');
    expect(await Promise.race([once(child, 'message'), gone])).toEqual([{ mode: 'free' }, undefined]);
  });
});
