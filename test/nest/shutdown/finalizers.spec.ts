import { once } from 'node:events';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { closeAll } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

// V8 calls back no FinalizationRegistry of a process any more, of whatever library, once one was collected that still had to.
describe('finalizers of the process', () => {
  it.each(['nothing', 'released', 'lost', 'lost, of several keys', 'held at the shutdown'])(
    'still run when an app was closed and collected: %s',
    async (use) => {
      const { child } = forkScript('finalizers-process.mjs', use);
      const [told] = (await once(child, 'message')) as [unknown];
      expect(told).toEqual({ isCollected: true, finalized: true });
    },
  );
});
