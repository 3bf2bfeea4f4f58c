import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type System } from './topologies/system.js';

/** The fields that a record of the lock may keep without holders and waiters are for the library to know: it lists the rest. */
const LISTER = join(import.meta.dirname, 'worker', 'list.mjs');

/** What is left on the servers when all processes have ended and all leases are over. */
export async function look(system: System, client: string): Promise<string[]> {
  const ofServers = await Promise.all(
    system.servers.map(async (server, i) => {
      const channels = (await server.send('PUBSUB', 'CHANNELS', '*')) as string[];
      const clients = String(await server.send('CLIENT', 'LIST'))
        .trim()
        .split('\n');
      // The one that asks, and replicas.
      const others = clients.filter((line) => !/cmd=client\|list|flags=[SM]|user=\S*-user/.test(line));
      const keys = (await server.send('KEYS', '*')) as string[];
      const ttls = await Promise.all(keys.map(async (key) => ({ key, ttl: await server.send('PTTL', key) })));
      return [
        ...(channels ?? ['no answer'])
          .filter((name) => !name.startsWith('__'))
          .map((name) => `server ${i} has a subscriber of ${name}`),
        ...others.map((line) => `server ${i} has a client: ${line}`),
        ...ttls.filter(({ ttl }) => ttl === -1).map(({ key }) => `server ${i} keeps ${key} for ever`),
      ];
    }),
  );
  const listed = client === 'nestjs-redis-lock' ? await list(system.directConnection) : [];
  return [...ofServers.flat(), ...listed.map((state) => `still held or waited for: ${state}`)];
}

async function list(connection: unknown): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [LISTER, JSON.stringify(connection)]);
  return JSON.parse(stdout) as string[];
}
