import { once } from 'node:events';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { closeAll } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

// Node follows async contexts from the first use on: what was begun before shares one context with all that came before.
it('the first iteration of a process distinguishes its consumer from calls started beside it', async () => {
  const { child } = forkScript('first-iteration-process.mjs', '');
  const [told] = (await once(child, 'message')) as [unknown];
  expect(told).toEqual({ own: 'LOCK_REENTRY', other: 'ran' });
});
