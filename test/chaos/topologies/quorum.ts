import { setTimeout as sleep } from 'node:timers/promises';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { type FaultKind } from '../nemesis/fault-kind.js';
import { networkFaults } from '../nemesis/network-faults.js';
import { clockFaults, forgettingFaults, operatorFaults, serverFaults } from '../nemesis/server-faults.js';
import { ChaosServer } from '../servers.js';
import { type System, type SystemOptions } from './system.js';

const SIZE = 3;

/** The longest lease that a call asks for is 3 s, and the longest extension 4 s. */
const AWAY_MS = 4_500;

/** Independent masters. A majority keeps its data through most faults, so that most excuse nothing. */
export async function startQuorum({ workers, shim }: SystemOptions): Promise<System> {
  const servers = await Promise.all(Array.from({ length: SIZE }, () => ChaosServer.start(shim)));
  const networks = await Promise.all(
    workers.map(() => Promise.all(servers.map((server) => startTcpProxy(server.port)))),
  );
  const direct = servers.map(({ port }) => `redis://127.0.0.1:${port}`);
  const places = servers.map((server) => () => server);
  const clocks = servers.map((server) => (ms: number) => server.stepClock(ms));
  return {
    connections: networks.map((proxies) => proxies.map(({ url }) => url)),
    directConnection: direct,
    servers,
    faults: [
      ...networkFaults(workers.map((worker, i) => ({ worker, proxies: networks[i]! }))),
      ...serverFaults(places),
      ...forgettingFaults(places),
      ...(shim ? clockFaults(clocks) : []),
      ...operatorFaults(() => direct),
      comesBackEmpty(servers),
    ],
    disconnect: () => networks.flat().forEach((proxy) => proxy.cutAll()),
    async stop() {
      await Promise.all(networks.flat().map((proxy) => proxy.close()));
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

/**
 * A node loses its data, and is kept away for one lease, as docs/guarantees.md asks. No lock may be held twice after that. A
 * fire is remembered for longer than a lease, and by a bare majority it may be remembered no more.
 */
const comesBackEmpty = (servers: readonly ChaosServer[]): FaultKind => ({
  name: 'node comes back empty',
  plan(random) {
    const i = random.between(0, servers.length - 1);
    return {
      target: `server ${i}`,
      forgets: ['job'],
      lastsMs: AWAY_MS,
      async inflict() {
        await servers[i]!.kill();
        await sleep(AWAY_MS);
        await servers[i]!.restart({ keepData: false });
      },
    };
  },
});
