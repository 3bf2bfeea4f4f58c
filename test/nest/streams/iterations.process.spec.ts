import { once } from 'node:events';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { closeAll } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

// The async context of a main flow never ends: what a loop sets there stays in memory.
it('promise 10: loops over locked iterables in the main flow of a module keep nothing', async () => {
  const { child } = forkScript('iterations-process.mjs', '');
  const [told] = (await once(child, 'message')) as [{ read: number; kept: number }];
  expect(told.read).toBe(600);
  expect(told.kept).toBeLessThan(10);
});
