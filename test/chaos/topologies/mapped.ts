import { type TcpProxy, startTcpProxy } from '../../support/network/tcp-proxy.js';
import { type ChaosServer } from '../servers.js';

/** The network of one worker to servers that announce their own addresses, which ioredis replaces by those of its proxies. */
export interface MappedNetwork {
  readonly worker: string;
  readonly proxies: readonly TcpProxy[];
  readonly natMap: Record<string, { host: string; port: number }>;
}

const HOST = '127.0.0.1';

export function mapNetworks(workers: readonly string[], servers: readonly ChaosServer[]): Promise<MappedNetwork[]> {
  return Promise.all(
    workers.map(async (worker) => {
      const proxies = await Promise.all(servers.map((server) => startTcpProxy(server.port)));
      const pairs = servers.map(({ port }, i) => [`${HOST}:${port}`, { host: HOST, port: proxies[i]!.port }] as const);
      return { worker, proxies, natMap: Object.fromEntries(pairs) };
    }),
  );
}

export const closeNetworks = (networks: readonly MappedNetwork[]): Promise<unknown> =>
  Promise.all(networks.flatMap(({ proxies }) => proxies.map((proxy) => proxy.close())));

export const cutNetworks = (networks: readonly MappedNetwork[]): void =>
  networks.forEach(({ proxies }) => proxies.forEach((proxy) => proxy.cutAll()));
