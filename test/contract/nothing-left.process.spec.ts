import { once } from 'node:events';
import { startChildApp } from '../support/processes/child-app.js';
import { closeAll, freshKey } from '../support/apps/lock-app.js';
import { itOnRedis } from '../support/topologies/topology.js';

describe('promise 10: nothing left behind', () => {
  afterEach(closeAll);

  itOnRedis('lets a process end by itself after app.close()', async () => {
    const child = await startChildApp();
    const exit = once(child.process, 'exit');
    const key = freshKey();
    await child.acquire(key);
    await child.release();
    await child.acquire(key);
    expect(await child.close()).toEqual([]);
    expect(await exit).toEqual([0, null]);
  });
});
