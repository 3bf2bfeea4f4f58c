import { errorMonitor } from 'node:events';
import { type Reporter } from '../../core/reporter.js';
import { NEVER_READY, adviceOn, readableText } from './error-advice.js';
import { type RedisClient, addressOf, isCluster } from './redis-client.js';
import { connectionErrorOf } from './redis-errors.js';

/**
 * Warns once when the first connection of a client fails: an application may start before its Redis, and its operator
 * should know at once that Redis is missing. Returns a function that stops waiting for that.
 */
export function warnOfFailedStart(client: RedisClient, reporter: Reporter): () => void {
  if (client.status === 'ready') return () => undefined;
  let lastNode = 'several nodes';
  const onNodeError = (_error: Error, address: string): void => void (lastNode = address);
  const onFailure = (error: Error = new Error(NEVER_READY)): void => {
    stop();
    const reason = connectionErrorOf(error);
    const where = isCluster(client) ? `cluster of ${lastNode}` : addressOf(client);
    const text = `Redis is not available yet (${where}), and is tried again until it is: ${readableText(reason)}.`;
    reporter.warn(`${text} ${adviceOn(reason, false)}`);
  };
  const listeners = new Map<string | symbol, (...args: any[]) => void>([
    [errorMonitor, onFailure],
    ['node error', onNodeError],
    ['close', () => onFailure()],
    ['ready', () => stop()],
    ['end', () => stop()],
  ]);
  const stop = (): void => {
    for (const [event, listener] of listeners) client.off(event, listener);
  };
  for (const [event, listener] of listeners) client.on(event as 'error', listener);
  return stop;
}
