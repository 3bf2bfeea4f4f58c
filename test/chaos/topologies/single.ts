import { setTimeout as sleep } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.js';
import { type FaultKind } from '../nemesis/plan.js';
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
