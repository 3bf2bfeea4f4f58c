// What all topologies share: servers that start together, commands to them, waiting, stopping.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/** @typedef {{ host: string, port: number }} Address */

export const HOST = '127.0.0.1';

const READY_WITHIN_MS = 20_000;
const LAUNCHES = 5;

/** Between asking for free ports and binding them, anybody may take one: then all is begun anew. */
export async function withFreshPorts(launch) {
  for (let count = 1; ; count++) {
    try {
      return await launch();
    } catch (error) {
      if (count === LAUNCHES || !/in use|another server/i.test(error.message)) throw error;
    }
  }
}

/** Starts servers at the same time; when one fails, none is left running. */
export async function startTogether(starts) {
  const results = await Promise.allSettled(starts.map((start) => start()));
  const failed = results.find(({ status }) => status === 'rejected');
  const servers = results.filter(({ value }) => value).map(({ value }) => value);
  if (!failed) return servers;
  await stopAll(servers);
  throw failed.reason;
}

/** Ends the servers, at the same time: a master that ends waits for a replica that is behind, unless that ends, too. */
export async function stopAll(servers) {
  await Promise.all(servers.map((server) => server.stop()));
}

/** Runs the work; when it fails, nothing is left behind. */
export async function orCleanUp(cleanUp, work) {
  try {
    return await work();
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/** Opens a connection for the commands of one piece of work. */
export async function ask({ port }, work, options = {}) {
  const client = new Redis({
    host: HOST,
    port,
    protocol: 2,
    retryStrategy: () => null,
    disconnectTimeout: 100,
    ...options,
  });
  client.on('error', () => {});
  try {
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/** Waits until the condition holds; what it throws counts as no. */
export async function until(what, condition) {
  const deadline = Date.now() + READY_WITHIN_MS;
  let last;
  while (Date.now() < deadline) {
    try {
      if (await condition()) return;
      last = undefined;
    } catch (error) {
      last = error;
    }
    await sleep(20);
  }
  throw new Error(`${what} did not come about within ${READY_WITHIN_MS} ms.`, { cause: last });
}

export const address = ({ port }) => ({ host: HOST, port });

/** Whether a replica follows its master and has all of its data. */
export const inSync = (replica) =>
  ask(replica, async (client) => (await client.info('replication')).includes('master_link_status:up'));
