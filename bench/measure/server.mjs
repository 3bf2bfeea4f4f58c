// What a Redis server has done meanwhile.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { sum } from './figures.mjs';

const { Redis } = createRequire(new URL('../../package.json', import.meta.url))('ioredis');

/** Watches servers: their CPU, keys and memory. */
export function watchServers(servers) {
  const clients = servers.map(({ port }) => new Redis(port, '127.0.0.1'));
  const total = async (ask) => sum(await Promise.all(clients.map(ask)));
  const fields = (section, names) =>
    total(async (client) => {
      const info = await client.info(section);
      return sum(names.map((name) => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(info)[1])));
    });
  return {
    /** The CPU that the servers have used so far, in microseconds. */
    cpuMicros: async () => 1e6 * (await fields('cpu', ['used_cpu_user', 'used_cpu_sys'])),
    memory: () => fields('memory', ['used_memory']),
    /** How many keys have expired so far. */
    expired: () => fields('stats', ['expired_keys']),
    connections: () => fields('clients', ['connected_clients']),
    keys: () => total((client) => client.dbsize()),
    /** How many keys do not have this text in their name. */
    othersThan: (text) => total((client) => countOthers(client, text)),
    clear: () => Promise.all(clients.map((client) => client.flushall())),
    close: () => clients.forEach((client) => client.disconnect()),
  };
}

async function countOthers(client, text) {
  let others = 0;
  for await (const keys of client.scanStream({ count: 1_000 }))
    others += keys.filter((key) => !key.includes(text)).length;
  return others;
}

/** Counts what clients send to servers until `stop` is called, and what scripts call there. */
export async function countCommands(servers) {
  const counts = { commands: 0, scriptCalls: 0 };
  const stops = await Promise.all(servers.map((server) => monitor(server, counts)));
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
    return counts;
  };
}

/** MONITOR distinguishes what a client sends from what a script calls. */
async function monitor({ port }, counts) {
  const socket = connect(port, '127.0.0.1', () => socket.write('MONITOR\r\n'));
  await once(socket, 'data');
  let rest = '';
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  socket.setEncoding('latin1').on('data', (text) => {
    const lines = (rest + text).split('\r\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '+RESET') end();
      else if (/^\+[\d.]+ \[\d+ lua\]/.test(line)) counts.scriptCalls += 1;
      else if (/^\+[\d.]+ \[/.test(line)) counts.commands += 1;
    }
  });
  return async () => {
    // RESET ends MONITOR; the reply comes after all that was monitored.
    socket.write('RESET\r\n');
    await ended;
    socket.destroy();
  };
}
