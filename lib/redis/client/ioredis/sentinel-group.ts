import type { Redis, RedisOptions } from 'ioredis';
import { type Timers } from '../../../core/clock.js';
import {
  CONNECT_TIMEOUT_MS,
  MAX_SENTINEL_RETRIES,
  SENTINEL_COMMAND_TIMEOUT_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { type SentinelConnection, type SentinelGroup } from '../sentinel-watch.js';
import { type ServerAddress, reachedBy } from '../server-address.js';
import { closeConnection } from './lifecycle.js';
import { WITHOUT_QUEUE } from './ioredis-options.js';

/** The sentinels of a client, with the options that ioredis takes for them. */
export function sentinelGroupOf(client: Redis, timers: Timers): SentinelGroup {
  const { options } = client;
  return {
    name: options.name!,
    sentinels: options.sentinels!.map(({ host = '127.0.0.1', port = 26_379 }) => ({ host, port })),
    isOpenToOthers: options.updateSentinels !== false,
    reachedBy: (address) => reachedBy(address, options.natMap),
    open: (sentinel, isNamed) => connectionBy(openSentinel(client, sentinel, retryStrategyOf(isNamed)), timers),
  };
}

function connectionBy(sentinel: Redis, timers: Timers): SentinelConnection {
  return {
    get isReady() {
      return sentinel.status === 'ready';
    },
    onError: (listener) => void sentinel.on('error', listener),
    onReady: (listener) => void sentinel.on('ready', listener),
    onClosed: (listener) => void sentinel.on('close', listener),
    onEnded: (listener) => void sentinel.once('end', listener),
    onMessage: (listener) => void sentinel.on('message', listener),
    command: (name, ...words) => sentinel.call(name, ...words),
    subscribe: (...channels) => sentinel.subscribe(...channels),
    ping: () => sentinel.ping(),
    reconnect: () => sentinel.disconnect(true),
    close: () => closeConnection(sentinel, timers),
  };
}

type RetryStrategy = (times: number) => number | null;

const retryStrategyOf = (isNamed: boolean): RetryStrategy =>
  isNamed ? reconnectDelayMs : (times) => (times > MAX_SENTINEL_RETRIES ? null : reconnectDelayMs(times));

/** What a client may have chosen for its commands, or to reach the master, and what a sentinel does not know. */
const NOT_FOR_SENTINELS: RedisOptions = {
  sentinels: undefined,
  path: undefined,
  Connector: undefined,
  db: 0,
  readOnly: false,
  keyPrefix: undefined,
  connectionName: undefined,
  socketTimeout: undefined,
  stringNumbers: false,
  protocol: 2,
  replyMapping: undefined,
  himportFieldsets: undefined,
};

/**
 * Opens a connection to a sentinel, with the options that ioredis takes for the sentinels of such a client. A duplicate is of
 * the same library and copy as the client.
 */
function openSentinel(client: Redis, sentinel: ServerAddress, retryStrategy: RetryStrategy): Redis {
  const { options } = client;
  return client.duplicate({
    ...NOT_FOR_SENTINELS,
    ...sentinel,
    ...WITHOUT_QUEUE,
    username: options.sentinelUsername,
    password: options.sentinelPassword,
    tls: options.sentinelTLS,
    connectTimeout: options.connectTimeout ?? CONNECT_TIMEOUT_MS,
    commandTimeout: options.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
    retryStrategy,
    enableReadyCheck: false,
    autoResubscribe: false,
    lazyConnect: false,
  });
}
