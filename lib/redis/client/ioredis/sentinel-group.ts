import { createConnection } from 'node:net';
import { connect } from 'node:tls';
import type { Redis, RedisOptions } from 'ioredis';
import { type Timers } from '../../../core/clock.js';
import {
  CONNECT_TIMEOUT_MS,
  DISCONNECT_TIMEOUT_MS,
  MAX_SENTINEL_RETRIES,
  SENTINEL_COMMAND_TIMEOUT_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { type SentinelConnection, type SentinelGroup, type Sentinels } from '../sentinel-watch.js';
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

/** The class that ioredis makes the connector of each of our own connections from. */
export const connectorTo = (sentinels: () => Sentinels, timers: Timers): NonNullable<RedisOptions['Connector']> =>
  class extends MasterConnector {
    constructor(options: unknown) {
      super(options as RedisOptions, sentinels, timers);
    }
  } as never;

/**
 * Connects to the master that the sentinels agree on. That of ioredis takes the word of the sentinel whose turn it is, and may
 * connect to an old master which that sentinel still names.
 */
export class MasterConnector {
  #search = new AbortController();
  #master: ServerAddress | null = null;
  #stream: Redis['stream'] | undefined;
  firstError: Error | undefined;

  constructor(
    private readonly options: RedisOptions,
    private readonly sentinels: () => Sentinels,
    private readonly timers: Timers,
  ) {}

  async connect(emit: (type: string, error: Error) => void): Promise<Redis['stream']> {
    return this.#open(await this.find(emit));
  }

  /** A failed search ends the connection, so it goes on until there is a master, or nobody wants one any more. */
  async find(emit: (type: string, error: Error) => void): Promise<ServerAddress> {
    const { signal } = (this.#search = new AbortController());
    for (let failures = 1; ; failures += 1) {
      try {
        const master = (this.#master = await this.sentinels().master(signal));
        if (signal.aborted) break;
        return master;
      } catch (error) {
        if (signal.aborted) break;
        emit('error', error as Error);
        await pause(reconnectDelayMs(failures), signal, this.timers);
      }
    }
    throw new Error('Connection is closed.');
  }

  check({ role }: { readonly role?: string }): boolean {
    if (role !== 'slave') return true;
    this.sentinels().refute(this.#master!);
    return false;
  }

  disconnect(): void {
    this.#search.abort();
    const stream = this.#stream;
    if (!stream || stream.destroyed) return;
    const cancel = this.timers.setTimer(
      () => stream.destroy(),
      this.options.disconnectTimeout ?? DISCONNECT_TIMEOUT_MS,
    );
    stream.once('close', cancel);
    stream.end();
  }

  #open(master: ServerAddress): Redis['stream'] {
    const { enableTLSForSentinelMode, tls } = this.options;
    const stream = enableTLSForSentinelMode && tls ? connect({ ...master, ...tls }) : createConnection(master);
    stream.once('error', (error) => (this.firstError = error));
    return (this.#stream = stream);
  }
}

/** Ends early when nobody wants a master any more. */
const pause = (ms: number, signal: AbortSignal, timers: Timers): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = timers.setTimer(end, ms);
    signal.addEventListener('abort', end);
  });
