import 'reflect-metadata';
import { type DemotionReason, type Leadership } from '../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { startMortal } from './support/mortal.js';
import { itOnRedis } from '../support/topologies/topology.js';

/** So long that no test sees the end of one. */
const LONG_MS = 120_000;
const SHORT_MS = 1_500;

interface Candidate extends LockApp {
  readonly leadership: Leadership;
  /** What it was told, in order. */
  readonly told: string[];
}

/** Starts an instance that campaigns; `leading` has the instances that lead now. */
async function campaign(key: string, leading = new Set<unknown>(), leaseMs = LONG_MS): Promise<Candidate> {
  const app = await startApp();
  const told: string[] = [];
  const leadership = app.locks.lead(key, {
    leaseMs,
    onElected: () => {
      told.push(leading.size === 0 ? 'elected' : 'elected beside another');
      leading.add(app);
    },
    onDemoted: (_term, reason: DemotionReason) => {
      leading.delete(app);
      told.push(reason);
    },
  });
  return Object.assign(app, { leadership, told });
}

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
