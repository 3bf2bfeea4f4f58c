import { type LeadsToMaster, type SingleClient } from '../client/redis-client.js';

/**
 * Calls `leave` when a connection leads to a server other than the master, now or as soon as it is connected, without waiting
 * until it is ready: a server that hangs would never be. A connection that is about to ask a sentinel needs nothing;
 * one that is asking must not be cut meanwhile, or ioredis would end it for good. Returns what stops the wait for the
 * connection: before the next call, since sentinels may name one master after the other meanwhile.
 */
export function ifElsewhere(client: SingleClient, leadsToMaster: LeadsToMaster, leave: () => void): () => void {
  const { status } = client;
  if (status === 'connecting') return client.once('connected', () => void ifElsewhere(client, leadsToMaster, leave));
  if ((status === 'connected' || status === 'ready') && !leadsToMaster(client)) leave();
  return () => undefined;
}
