import { startCluster } from '../../../scripts/topologies.mjs';
import { closeAll, closeLater, startApp } from '../../support/apps/lock-app.js';
import { keyOn, masterOf } from '../../support/redis/cluster-slots.js';
import { eventually } from '../../support/waiting/eventually.js';

const LOCKS = 300;

describe('a history whose node hangs', () => {
  afterEach(closeAll);

  it('delays no lock on the other nodes, and is written afterwards', async () => {
    // Nobody takes over.
    const cluster = await startCluster({ replicas: 0, nodeTimeoutMs: 60_000 });
    closeLater({ close: () => cluster.stop() });
    const { locks } = await startApp({ connection: cluster.connection, history: true });
    const at = masterOf('lock:{history}');
    const [near, far] = [keyOn((at + 1) % 3), keyOn((at + 2) % 3)];
    for (const key of [near, far]) await locks.withLock(key, () => undefined);
    expect(await locks.history()).toHaveLength(4);
    let renewals = 0;
    locks.events.on('renewed', () => (renewals += 1));
    const { pid } = cluster.masters[at]!;
    process.kill(pid, 'SIGSTOP');
    try {
      const held = await locks.acquire(far, { leaseMs: 6_000 });
      // More than one batch, of which the first has no answer by now.
      for (let i = 0; i < LOCKS; i += 1) expect(await locks.withLock(near, () => i)).toBe(i);
      await eventually(() => renewals >= 3, { timeoutMs: 20_000 });
      expect(held.held).toBe(true);
      await held.release();
      expect(locks.activity).toEqual({ held: 0, waiting: 0 });
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    const entriesOf = async (key: string) => locks.history({ key, limit: 1_000 }).catch(() => []);
    await eventually(async () => (await entriesOf(far)).length === 4, { timeoutMs: 60_000 });
    expect(await entriesOf(near)).toHaveLength(2 * LOCKS + 2);
  }, 120_000);
});
