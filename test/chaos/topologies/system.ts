import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultKind } from '../nemesis/plan.js';
import { type ChaosServer } from '../servers.js';
import { now } from '../worker/standstills.mjs';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.js';

/** The servers of a run, and the ways to them. */
export interface System {
  /** The option `connection` of each worker: each has a separate network. */
  readonly connections: readonly unknown[];
  /** A connection that no fault concerns. */
  readonly directConnection: unknown;
  /** All servers that have locks, to look what is left on them. */
  readonly servers: readonly ChaosServer[];
  /** Those that have no locks, such as sentinels. */
  readonly monitors?: readonly ChaosServer[];
  readonly faults: readonly FaultKind[];
  /** Whether every master has all its replicas; undefined if it has none. */
  isComplete?(): Promise<boolean>;
  /** Ends the connections that a proxy keeps although their clients are gone, such as that of a late command. */
  disconnect(): void;
  stop(): Promise<void>;
}

export interface SystemOptions {
  readonly workers: readonly string[];
  /** The library that steps clocks; undefined if it could not be compiled. */
  readonly shim: string | undefined;
  /** How many replicas confirm a grant. If all of them do, a promoted one has it. */
  readonly minReplicas: number;
}

/** Waits until the condition is true, but no longer than this. */
export async function soon(withinMs: number, condition: () => Promise<boolean>): Promise<void> {
  for (const end = now() + withinMs; now() < end && !(await condition());) await sleep(100);
}

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
