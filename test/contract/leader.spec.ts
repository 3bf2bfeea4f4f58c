import 'reflect-metadata';
import { type DemotionReason, type Leadership } from '../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { startMortalApp } from './support/mortal.js';
import { itInMemory, topology } from '../support/topologies/topology.js';

const SHORT_MS = 1_500;
/** So long that no test sees the end of one. A message that is lost delays a loss to the next renewal, after a third of it. */
const LONG_MS = 45_000;

interface Candidate extends LockApp {
  readonly leadership: Leadership;
  /** Its notifications, in order. */
  readonly told: string[];
}

/** Starts an instance that campaigns; `leading` has the instances that lead now. */
async function campaign(key: string, leading = new Set<unknown>()): Promise<Candidate> {
  const app = await startApp();
  const told: string[] = [];
  const leadership = app.locks.lead(key, {
    leaseMs: LONG_MS,
    onElected: () => {
      told.push(leading.size === 0 ? 'elected' : 'elected while another leads');
      leading.add(app);
    },
    onDemoted: (_term, reason: DemotionReason) => {
      leading.delete(app);
      told.push(reason);
    },
  });
  return Object.assign(app, { leadership, told });
}

const leaderOf = (candidates: readonly Candidate[]): Promise<Candidate> =>
  eventually(() => candidates.find(({ leadership }) => leadership.isLeader()), { timeoutMs: 20_000 });

describe('a leader', () => {
  afterEach(closeAll);

  it('is one instance at a time, and each of them gets its turn when the leader shuts down', async () => {
    const [key, leading] = [freshKey('leader'), new Set()];
    const all = await Promise.all([1, 2, 3].map(() => campaign(key, leading)));
    let left = all;
    const tokens: number[] = [];
    while (left.length > 0) {
      const leader = await leaderOf(left);
      expect(left.filter(({ leadership }) => leadership.isLeader())).toEqual([leader]);
      tokens.push(leader.leadership.term!.fencingToken);
      await leader.close();
      left = left.filter((one) => one !== leader);
    }
    expect(all.map(({ told }) => told)).toEqual(all.map(() => ['elected', 'shutdown']));
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
  });

  it('is notified that an operator has revoked its lock, and the next one leads', async () => {
    const key = freshKey('leader');
    const first = await campaign(key);
    const { signal } = await first.leadership.waitUntilLeader();
    const second = await campaign(key);
    // Its command has arrived: otherwise the first one might be elected again.
    await eventually(async () => (await first.locks.inspect(key)).waiters === 1);
    await second.locks.forceRelease(key);
    await eventually(() => signal.aborted, { timeoutMs: 30_000 });
    expect(first.told.slice(0, 2)).toEqual(['elected', 'revoked']);
    const next = await leaderOf([first, second]);
    if (topology.supports.queue) expect(next).toBe(second);
  });

  itInMemory(
    'learns from its own clock that its lease is over when it is cut off, and then another leads',
    async () => {
      const key = freshKey('leader');
      const { locks, kill } = await startMortalApp();
      const order: string[] = [];
      const cutOff = locks.lead(key, { leaseMs: 3 * SHORT_MS, onDemoted: (_term, reason) => order.push(reason) });
      await cutOff.waitUntilLeader();
      const { locks: others } = await startApp();
      const next = others.lead(key, { leaseMs: 3 * SHORT_MS, onElected: () => order.push('elected') });
      await kill();
      await next.waitUntilLeader();
      expect(order).toEqual(['unreachable', 'elected']);
      expect(cutOff.isLeader()).toBe(false);
    },
  );
});
