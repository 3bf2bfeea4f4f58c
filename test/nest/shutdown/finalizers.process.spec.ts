import { once } from 'node:events';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { closeAll } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

// V8 stops all FinalizationRegistry callbacks of a process once a registry is collected with callbacks still due.
describe('finalizers of the process', () => {
  it.each(['nothing', 'released', 'lost', 'lost, of several keys', 'held at the shutdown'])(
    'still run after an app was closed and collected: %s',
    async (use) => {
      const { child } = forkScript('finalizers-process.mjs', use);
      const [told] = (await once(child, 'message')) as [unknown];
      expect(told).toEqual({ isCollected: true, finalized: true });
    },
  );
});
