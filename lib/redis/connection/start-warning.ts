import { errorMonitor } from 'node:events';
import { type Reporter } from '../../core/reporter.js';
import { type RedisClient, addressOf, isCluster } from './redis-client.js';
import { connectionErrorOf } from './redis-errors.js';
import { NEVER_READY, adviceOn, readableText } from './error-advice.js';

/**
 * Warns when the first connection of a client fails, and not again: an app may start before its Redis, and is to know
 * at once that it has none. Gives what ends the wait for that.
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
