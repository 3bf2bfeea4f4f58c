import { setTimeout as sleep } from 'node:timers/promises';
import { type TcpProxy, startTcpProxy } from '../../support/network/tcp-proxy.js';
import { type FaultKind } from '../nemesis/fault-kind.js';
import { networkFaults } from '../nemesis/network-faults.js';
import { clockFaults, forgettingFaults, operatorFaults, serverFaults } from '../nemesis/server-faults.js';
import { ChaosServer } from '../servers.js';
import { type System, type SystemOptions } from './system.js';

/** One server, behind an address that may move to another one. */
export async function startSingle({ workers, shim }: SystemOptions): Promise<System> {
  const servers = await Promise.all([0, 1].map(() => ChaosServer.start(shim)));
  const proxies = await Promise.all(workers.map(() => startTcpProxy(servers[0]!.port)));
  let current = servers[0]!;
  const place = () => current;
  const direct = (): string => `redis://127.0.0.1:${current.port}`;
  const move = (): void => {
    current = servers.find((server) => server !== current)!;
    for (const proxy of proxies) proxy.leadTo(current.port);
  };
  const stepBoth = (ms: number): void => servers.forEach((server) => server.stepClock(ms));
  return {
    connections: proxies.map(({ url }) => url),
    get directConnection() {
      return direct();
    },
    servers,
    faults: [
      ...networkFaults(workers.map((worker, i) => ({ worker, proxies: [proxies[i]!] }))),
      ...serverFaults([place]),
      ...forgettingFaults([place]),
      ...(shim ? clockFaults([stepBoth]) : []),
      ...operatorFaults(direct),
      addressMoves(move, proxies),
    ],
    disconnect: () => proxies.forEach((proxy) => proxy.cutAll()),
    async stop() {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

/** New connections lead to another server at once; those that exist end one after the other. */
const addressMoves = (move: () => void, proxies: readonly TcpProxy[]): FaultKind => ({
  name: 'address moves',
  plan(random) {
    const lastsMs = random.between(0, 1_500);
    return {
      target: 'server 0',
      forgets: 'all',
      lastsMs,
      async inflict() {
        move();
        for (const proxy of proxies) {
          await sleep(lastsMs / proxies.length);
          proxy.cutAll();
        }
      },
    };
  },
});
