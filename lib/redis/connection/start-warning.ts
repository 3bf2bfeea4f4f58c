import { type Reporter } from '../../core/reporter.js';
import { NEVER_READY, adviceOn, readableText } from './error-advice.js';
import { type RedisClient } from '../client/cluster.js';
import { withoutSecrets } from './redis-errors.js';

/**
 * Warns once when the first connection of a client fails, and reports when it succeeds: an application may start before its Redis,
 * and its operator should learn at once that Redis is missing. Returns a function that stops waiting for the connection.
 */
export function warnOfFailedStart(client: RedisClient, reporter: Reporter): () => void {
  if (client.status === 'ready') return () => undefined;
  let isMissing = false;
  const where = client.isCluster ? 'a cluster' : client.address;
  const onFailure = (error: Error = new Error(NEVER_READY)): void => {
    if (isMissing) return;
    isMissing = true;
    const reason = withoutSecrets(error);
    const text = `Redis is not available yet (${where}), and the connection is retried: ${readableText(reason)}.`;
    reporter.warn(`${text} ${adviceOn(reason, false)}`);
  };
  const onReady = (): void => {
    stop();
    if (isMissing) reporter.warn(`Redis is available now (${where}).`);
  };
  const stops = [
    client.on('error', onFailure),
    client.on('closed', () => onFailure()),
    client.on('ready', onReady),
    client.on('ended', () => stop()),
  ];
  const stop = (): void => {
    for (const one of stops) one();
  };
  return stop;
}
