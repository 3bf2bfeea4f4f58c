import { type LeadsToMaster, type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { closeAll, openAdmin } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type Subject, SubjectClients, untilReady } from './subject.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';

const FAILOVER_MS = 20_000;

/** A client that leads to this port, as far as a watch asks. */
const clientAt = (port: number): SingleClient => ({ peer: { host: '127.0.0.1', port } }) as SingleClient;

/** What a connection promises whose master is named by sentinels. */
export function sentinelConformance(subject: Subject): void {
  describe('a connection by sentinels', () => {
    afterEach(closeAll);

    it('leads to the master, and learns of another one', async () => {
      const { connection, master, sentinels } = await ownSentinels({ downAfterMs: 20_000 });
      const client = await new SubjectClients(subject).connected(connection);
      expect(client.peer).toEqual({ host: '127.0.0.1', port: master.port });
      expect(client.address).toBe(`sentinel mymaster of 127.0.0.1:${connection.sentinels[0]!.port}`);
      const told: LeadsToMaster[] = [];
      const watch = client.watchMaster((leadsToMaster) => told.push(leadsToMaster))!;
      expect(watch).not.toBeNull();
      // The sentinels name one master, which is reported once.
      await eventually(() => told.length > 0, { timeoutMs: FAILOVER_MS });
      for (const leadsToMaster of told) expect(leadsToMaster(clientAt(master.port))).toBe(true);
      const sentinel = openAdmin(sentinels[0]!.url);
      await sentinel.call('SENTINEL', 'FAILOVER', 'mymaster');
      const newPort = await eventually(
        async () => {
          const answer = (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[];
          return Number(answer[1]) !== master.port && Number(answer[1]);
        },
        { timeoutMs: FAILOVER_MS },
      );
      await eventually(() => told.at(-1)!(clientAt(newPort)), { timeoutMs: FAILOVER_MS });
      expect(told.at(-1)!(clientAt(master.port))).toBe(false);
      await watch.close();

      const copy = client.duplicate();
      await untilReady(copy);
      expect(copy.peer).toEqual({ host: '127.0.0.1', port: newPort });
      await copy.close();
      client.reconnect();
      await eventually(() => client.peer?.port === newPort && client.isWritable, { timeoutMs: FAILOVER_MS });
    }, 60_000);
  });
}
