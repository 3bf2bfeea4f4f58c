import { type Reporter } from '../../core/reporter.js';
import { NEVER_READY, adviceOn, readableText } from './error-advice.js';
import { type RedisClient } from '../client/redis-client.js';
import { connectionErrorOf } from './redis-errors.js';

/**
 * Warns once when the first connection of a client fails: an application may start before its Redis, and its operator
 * should know at once that Redis is missing. Returns a function that stops waiting for that.
 */
export function warnOfFailedStart(client: RedisClient, reporter: Reporter): () => void {
  if (client.status === 'ready') return () => undefined;
  let lastNode = 'several nodes';
  const onFailure = (error: Error = new Error(NEVER_READY)): void => {
    stop();
    const reason = connectionErrorOf(error);
    const where = client.isCluster ? `cluster of ${lastNode}` : client.address;
    const text = `Redis is not available yet (${where}), and is tried again until it is: ${readableText(reason)}.`;
    reporter.warn(`${text} ${adviceOn(reason, false)}`);
  };
  const stops = [
    client.on('error', onFailure),
    client.on('nodeError', (address) => (lastNode = address)),
    client.on('closed', () => onFailure()),
    client.on('ready', () => stop()),
    client.on('ended', () => stop()),
  ];
  const stop = (): void => {
    for (const one of stops) one();
  };
  return stop;
}
