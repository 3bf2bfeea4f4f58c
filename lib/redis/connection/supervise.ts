import { type Redis } from 'ioredis';
import { type Clock, setDeadline } from '../../core/clock.js';
import { attachToNodes } from './cluster-nodes.js';
import { type RedisClient, endsForGood, isCluster, reconnectDelayMs } from './redis-client.js';

/** How long a server that took a connection may be silent before another connection is tried. */
const GREETING_MS = 2_000;

/** How long a connection may take to be taken where the application has set no limit. */
const CONNECT_MS = 10_000;

/**
 * Replaces the socket of a connection of ours that is not ready in time, and of those to the nodes of a cluster, again
 * and again, and opens one again that has ended; gives what ends that. ioredis has no deadline for a server that takes
 * a connection and says nothing.
 */
export function supervise(client: RedisClient, clock: Clock): () => void {
  const stops = [superviseOne(client, clock), reopen(client, clock)];
  if (isCluster(client)) stops.push(attachToNodes(client, (node) => superviseOne(node, clock)));
  return () => {
    for (const stop of stops) stop();
  };
}

/** ioredis ends one of ours when it is told to leave a master while it looks for one. */
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
    // For one that ioredis does not open again it is the end, and another one is made.
    cancel = setDeadline(clock, () => client.disconnect(true), ms);
  };
  const onConnecting = (): void => {
    // A cluster, and the search for a master by way of sentinels, take as many steps as there are nodes, each with a limit.
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

const connectMs = ({ options }: Redis): number => options.connectTimeout || CONNECT_MS;
