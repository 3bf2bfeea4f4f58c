import { Cluster } from 'ioredis';
import { startCluster } from '../../../scripts/topologies.mjs';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

describe('a cluster client that reads from replicas', () => {
  afterEach(closeAll);

  it('reads the state of a lock from its master', async () => {
    const cluster = await startCluster();
    closeLater({ close: () => cluster.stop() });
    const client = new Cluster([...cluster.connection.cluster], { scaleReads: 'slave' });
    client.on('error', () => undefined);
    closeLater({ close: async () => client.disconnect() });
    const replicas = cluster.replicas.map(({ url }) => openAdmin(url));
    const [a, b] = [await startApp({ connection: client }), await startApp({ connection: cluster.connection })];
    for (let i = 0; i < 6; i += 1) {
      const key = freshKey();
      const held = await b.locks.acquire(key);
      expect(await a.locks.isLocked(key)).toBe(true);
      expect(await a.locks.tryAcquire(key)).toBeNull();
      const waiting = a.locks.acquire(key, { waitMs: 20_000 });
      await untilWaiting(a, key);
      await held.release();
      await (await waiting).release();
      expect(await a.locks.isLocked(key)).toBe(false);
    }
    const ran = async (command: string) => {
      const infos = await Promise.all(replicas.map((replica) => replica.info('commandstats')));
      return infos.some((info) => info.includes(`cmdstat_${command}:calls=`));
    };
    expect([await ran('evalsha'), await ran('eval')]).toEqual([false, false]);
    // What the application reads comes from them.
    await eventually(async () => {
      await client.get(freshKey());
      return ran('get');
    });
  });
});
