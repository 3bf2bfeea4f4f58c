// Shared by all topologies: starting servers together, sending commands, waiting, stopping.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/** @typedef {{ host: string, port: number }} Address */

export const HOST = '127.0.0.1';

const READY_WITHIN_MS = 20_000;

/** Starts servers at the same time. If one fails, stops the others. */
export async function startTogether(starts) {
  const results = await Promise.allSettled(starts.map((start) => start()));
  const failed = results.find(({ status }) => status === 'rejected');
  const servers = results.filter(({ value }) => value).map(({ value }) => value);
  if (!failed) return servers;
  await stopAll(servers);
  throw failed.reason;
}

/** Stops the servers at the same time: a master that stops waits for a replica that is behind, unless that one also stops. */
export async function stopAll(servers) {
  await Promise.all(servers.map((server) => server.stop()));
}

/** Runs the work; cleans up if it fails. */
export async function orCleanUp(cleanUp, work) {
  try {
    return await work();
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/** Runs `work` with a separate connection. */
export async function ask({ port }, work, options = {}) {
  const once = { protocol: 2, retryStrategy: () => null, disconnectTimeout: 100 };
  const client = new Redis({ host: HOST, port, ...once, ...options });
  client.on('error', () => {});
  try {
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/** Waits until the condition is true; an error counts as false. */
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
  throw new Error(`${what} took longer than ${READY_WITHIN_MS} ms.`, { cause: last });
}

/** Whether all servers fulfil the condition. */
export async function every(servers, condition) {
  const answers = await Promise.all(servers.map((server) => condition(server)));
  return answers.every(Boolean);
}

export const address = ({ port }) => ({ host: HOST, port });

/** Whether a replica follows its master and has all of its data. */
export const inSync = (replica) =>
  ask(replica, async (client) => (await client.info('replication')).includes('master_link_status:up'));
