import 'reflect-metadata';
import { closeAll, freshKey } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { campaign } from './support/candidates.js';
import { startMortal } from './support/mortal.js';
import { itOnRedis } from '../support/topologies/topology.js';

const SHORT_MS = 1_500;

describe('a leader', () => {
  afterEach(closeAll);

  itOnRedis('is followed within its lease when its process is killed', async () => {
    const key = freshKey('leader');
    const dead = await startMortal();
    const token = await dead.acquire(key, { leaseMs: SHORT_MS });
    const next = await campaign(key, new Set(), SHORT_MS);
    await eventually(() => next.locks.activity.waiting === 1);
    await dead.kill();
    expect((await next.leadership.waitUntilLeader()).fencingToken).toBeGreaterThan(token);
  });
});
