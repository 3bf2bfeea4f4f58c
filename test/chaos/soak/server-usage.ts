import { type ChaosServer } from '../servers.js';
import { type System } from '../topologies/system.js';
import { type Sample } from './verdict.js';

const MB = 2 ** 20;

/** What the servers use, all together, since masters and replicas change their places. */
export async function measureServers({ servers, monitors = [] }: System, minute: number): Promise<Sample[]> {
  const ofServers = await Promise.all(servers.map(measure));
  const ofMonitors = await Promise.all(monitors.map(async (server) => ({ clients: (await infoOf(server)).clients })));
  return [
    { minute, source: 'servers', values: sum(ofServers) },
    ...(monitors.length > 0 ? [{ minute, source: 'sentinels', values: sum(ofMonitors) }] : []),
  ];
}

async function measure(server: ChaosServer): Promise<Record<string, number>> {
  const { clients, memory, scripts } = await infoOf(server);
  const channels = ((await server.send('PUBSUB', 'CHANNELS', 'chaos:*')) ?? []) as string[];
  const keys = ((await server.send('KEYS', 'chaos:*')) ?? []) as string[];
  const keyspace = /keys=(\d+),expires=(\d+)/.exec(String(await server.send('INFO', 'keyspace')));
  const kept = keyspace ? Number(keyspace[1]) - Number(keyspace[2]) : 0;
  return { clients, keys: keys.length, 'keys without expiry': kept, memory, channels: channels.length, scripts };
}

async function infoOf(server: ChaosServer): Promise<{ clients: number; memory: number; scripts: number }> {
  const info = String(await server.send('INFO'));
  const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return {
    clients: field('connected_clients') + field('connected_slaves'),
    // The buffers of replication fill up to their size after each failover.
    memory: (field('used_memory') - field('mem_total_replication_buffers')) / MB,
    scripts: field('number_of_cached_scripts'),
  };
}

function sum(all: readonly Record<string, number>[]): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const [name, value] of all.flatMap((one) => Object.entries(one))) totals[name] = (totals[name] ?? 0) + value;
  return totals;
}
