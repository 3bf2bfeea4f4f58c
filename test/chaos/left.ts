import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ChaosServer } from './servers.js';
import { type System } from './topologies/system.js';

const LISTER = join(import.meta.dirname, 'worker', 'list.mjs');

/** The connection that asks, and those of replicas and sentinels. */
const OF_SERVERS = /cmd=client\|list|flags=[SM]|name=sentinel-/;

/** What is left on the servers when all processes have ended and all leases are over. */
export async function look({ servers, directConnection }: System, client: string): Promise<string[]> {
  const found = await Promise.all(servers.map((server, i) => lookAt(server, `server ${i}`)));
  // The peers have no list of their locks.
  const held = client === 'nestjs-redis-lock' ? await list(directConnection) : [];
  return [...found.flat(), ...held.map((state) => `still held or waited for: ${state}`)];
}

async function lookAt(server: ChaosServer, name: string): Promise<string[]> {
  const channels = (await server.send('PUBSUB', 'CHANNELS', '*')) as string[] | undefined;
  if (!channels) return [`${name} does not answer`];
  const clients = String(await server.send('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  const keys = (await server.send('KEYS', '*')) as string[];
  const kept = await Promise.all(keys.map(async (key) => ((await server.send('PTTL', key)) === -1 ? [key] : [])));
  return [
    ...channels
      .filter((channel) => !channel.startsWith('__'))
      .map((channel) => `${name} has a subscriber of ${channel}`),
    ...clients.filter((line) => !OF_SERVERS.test(line)).map((line) => `${name} has a client: ${line}`),
    ...kept.flat().map((key) => `${name} keeps ${key} for ever`),
  ];
}

async function list(connection: unknown): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [LISTER, JSON.stringify(connection)]);
  return JSON.parse(stdout) as string[];
}
