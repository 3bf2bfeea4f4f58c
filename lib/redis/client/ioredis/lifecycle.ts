import type { Cluster, Redis } from 'ioredis';
import { type Clock, type Timers, setDeadline } from '../../../core/clock.js';
import {
  CLOSE_TIMEOUT_MS,
  DISCONNECT_TIMEOUT_MS,
  GREETING_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { type Ioredis, endsForGood } from './ioredis-options.js';

/**
 * Replaces the socket of a connection of ours, or of a connection to one of its cluster nodes, each time it is not ready in
 * time, and reopens the connection when it has ended. Returns a function that stops this. ioredis has no deadline for a server
 * that accepts a connection and stays silent.
 */
export function supervise(client: Ioredis, clock: Clock): () => void {
  const stops = [superviseOne(client, clock), reopen(client, clock)];
  if (isCluster(client)) stops.push(attachToNodes(client, (node) => superviseOne(node, clock)));
  return () => {
    for (const stop of stops) stop();
  };
}

/** ioredis ends a connection for good when it is disconnected while it looks for a master. */
function reopen(client: Ioredis, clock: Clock): () => void {
  let ends = 0;
  let cancel = (): void => undefined;
  const connect = (): void => {
    if (client.status === 'end') client.connect().catch(() => undefined);
  };
  const onReady = (): void => void (ends = 0);
  const onEnd = (): void => {
    if (!endsForGood(client)) cancel = clock.setTimer(connect, reconnectDelayMs((ends += 1)));
  };
  client.on('ready', onReady);
  client.on('end', onEnd);
  return () => {
    cancel();
    client.off('ready', onReady);
    client.off('end', onEnd);
  };
}

function superviseOne(client: Ioredis, clock: Clock): () => void {
  let cancel = (): void => undefined;
  const arm = (ms: number): void => {
    cancel();
    // A connection that ioredis does not reopen ends here, and is replaced by a new one.
    cancel = setDeadline(clock, () => client.disconnect(true), ms);
  };
  const onConnecting = (): void => {
    // A cluster, and the search for a master by sentinels, take a step per node, and each step has its own limit.
    if (!isCluster(client) && !client.options.sentinels) arm(connectMs(client) + GREETING_MS);
  };
  const onConnect = (): void => arm(isCluster(client) ? 2 * GREETING_MS : GREETING_MS);
  const disarm = (): void => cancel();
  const listeners = { connecting: onConnecting, connect: onConnect, ready: disarm, close: disarm, end: disarm };
  for (const [event, listener] of Object.entries(listeners)) client.on(event, listener);
  if (client.status === 'connecting') onConnecting();
  if (client.status === 'connect') onConnect();
  return () => {
    cancel();
    for (const [event, listener] of Object.entries(listeners)) client.off(event, listener);
  };
}

const connectMs = ({ options }: Redis): number => options.connectTimeout || IOREDIS_CONNECT_TIMEOUT_MS;

const isCluster = (client: Ioredis): client is Cluster => client.isCluster;

/** Attaches something to each present and future connection to a node; returns a function that detaches it from all. */
export function attachToNodes(cluster: Cluster, attach: (node: Redis) => () => void): () => void {
  const attached = new Map<Redis, () => void>();
  const onNode = (node: Redis): void => {
    if (!attached.has(node)) attached.set(node, attach(node));
  };
  const onNodeGone = (node: Redis): void => {
    attached.get(node)?.();
    attached.delete(node);
  };
  for (const node of cluster.nodes()) onNode(node);
  cluster.on('+node', onNode);
  cluster.on('-node', onNodeGone);
  return () => {
    cluster.off('+node', onNode);
    cluster.off('-node', onNodeGone);
    for (const node of attached.keys()) onNodeGone(node);
  };
}

/** Closes a connection of ours; resolves when its sockets have ended, or after a short limit. */
export async function closeConnection(client: Ioredis, timers: Timers): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'wait') return client.disconnect(false);
  if (!isCluster(client) && client.status === 'reconnecting') {
    client.disconnect(false);
    // ioredis has set a timer to destroy its last socket, which has ended already.
    return new Promise((resolve) => void timers.setTimer(resolve, DISCONNECT_TIMEOUT_MS));
  }
  // A cluster ends before the connections to its nodes do.
  const nodes = isCluster(client) ? client.nodes().filter(({ status }) => status !== 'wait' && status !== 'end') : [];
  const ends = [client, ...nodes].map((one) => new Promise<void>((resolve) => one.once('end', resolve)));
  let cancel = (): void => undefined;
  const limit = new Promise<void>((resolve) => (cancel = timers.setTimer(resolve, CLOSE_TIMEOUT_MS)));
  client.disconnect(false);
  await Promise.race([Promise.all(ends), limit]);
  cancel();
}
