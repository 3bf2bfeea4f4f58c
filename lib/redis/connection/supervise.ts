import { type Redis } from 'ioredis';
import { type Clock, setDeadline } from '../../core/clock.js';
import { GREETING_MS, IOREDIS_CONNECT_TIMEOUT_MS, reconnectDelayMs } from '../timing.js';
import { attachToNodes } from './cluster-nodes.js';
import { type RedisClient, endsForGood, isCluster } from './redis-client.js';

/**
 * Replaces the socket of a connection of ours, or of a connection to one of its cluster nodes, each time it is not ready in
 * time, and reopens the connection when it has ended. Returns a function that stops this. ioredis has no deadline for a server
 * that accepts a connection and stays silent.
 */
export function supervise(client: RedisClient, clock: Clock): () => void {
  const stops = [superviseOne(client, clock), reopen(client, clock)];
  if (isCluster(client)) stops.push(attachToNodes(client, (node) => superviseOne(node, clock)));
  return () => {
    for (const stop of stops) stop();
  };
}

/** ioredis ends a connection for good when it is disconnected while it looks for a master. */
function reopen(client: RedisClient, clock: Clock): () => void {
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

function superviseOne(client: RedisClient, clock: Clock): () => void {
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
