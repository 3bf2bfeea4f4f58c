import { EventEmitter } from 'node:events';
import { type RedisOptions } from 'ioredis';
import { Socket, socketError } from '../network/socket.js';
import { type Network } from '../network/network.js';
import { type SimProcess } from '../world/sim-process.js';
import { SentinelConnector } from './sentinel-connector.js';

/** A command that has been called, and not been answered. */
export interface Item {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The defaults of ioredis 6. */
const DEFAULTS = {
  host: 'localhost',
  port: 6379,
  db: 0,
  connectTimeout: 10_000,
  disconnectTimeout: 2_000,
  enableOfflineQueue: true,
  enableReadyCheck: true,
  autoResendUnfulfilledCommands: true,
  autoResubscribe: true,
  maxRetriesPerRequest: 20,
  maxLoadingRetryTime: 10_000,
  retryStrategy: (times: number): number | null => Math.min(times * 50, 2_000),
  sentinelRetryStrategy: (times: number): number | null => Math.min(times * 10, 1_000),
};

const CLOSED = 'Connection is closed.';

type Options = typeof DEFAULTS & RedisOptions;
export type Status = 'wait' | 'connecting' | 'connect' | 'ready' | 'close' | 'reconnecting' | 'end';

/**
 * Stands for a client of ioredis 6, with its states, its queues and its reconnections (built/Redis.js, built/redis/
 * event_handler.js).
 */
export class SimRedis extends EventEmitter {
  readonly isCluster = false;
  readonly mode = 'normal';
  status: Status = 'wait';
  readonly options: Options;
  condition: { select: number } | null = null;
  /** The cluster client whose connection this is. */
  cluster: object | null = null;
  stream: Socket | undefined;
  commandQueue: Item[] = [];
  offlineQueue: Item[] = [];
  #previousQueue: Item[] | null = null;
  #channels = new Set<string>();
  #previousChannels = new Set<string>();
  #retries = 0;
  #isClosing = false;
  #cancelReconnect: (() => void) | null = null;
  readonly #process: SimProcess;
  #cancelOpening: (() => void) | null = null;
  /** Looks for the master behind Sentinel. */
  readonly #sentinels: SentinelConnector | null;
  /** Its own listeners, apart from those of its users. */
  readonly #own = new EventEmitter();

  /** It belongs to the process whose code runs now. */
  constructor(
    private readonly network: Network,
    given: RedisOptions = {},
  ) {
    super();
    this.#process = network.world.current!;
    this.setMaxListeners(0);
    this.options = { ...DEFAULTS, ...withoutUndefined(given) } as Options;
    this.#sentinels = given.sentinels ? this.#sentinelConnector() : null;
    network.add(this, this.#process);
    if (!this.options.lazyConnect) void this.connect().catch(() => undefined);
  }

  duplicate(changed: RedisOptions = {}): SimRedis {
    return new SimRedis(this.network, { ...this.options, ...changed });
  }

  connect(): Promise<void> {
    if (['connecting', 'connect', 'ready'].includes(this.status)) {
      return Promise.reject(new Error('Redis is already connecting/connected'));
    }
    this.#setStatus('connecting');
    this.condition = { select: this.options.db };
    // As in ioredis, the socket is opened in the next tick; a client that is disconnected before that has ended.
    let isWanted = true;
    const stopWanting = (): void => void (isWanted = false);
    this.#cancelOpening = stopWanting;
    return new Promise((resolve, reject) => {
      const open = (port: number): void => {
        this.#open(port);
        const onReady = (): void => (this.#own.off('close', onClose), resolve());
        const onClose = (): void => (this.#own.off('ready', onReady), reject(new Error(CLOSED)));
        this.#own.once('ready', onReady);
        this.#own.once('close', onClose);
      };
      const openSoon = (): void => {
        this.#cancelOpening = null;
        if (isWanted) open(this.options.port);
        else this.#endUnopened(reject, new Error(CLOSED));
      };
      if (this.#sentinels) void this.#find(open, reject);
      else this.network.world.soon(openSoon);
    });
  }

  #sentinelConnector(): SentinelConnector {
    const { world } = this.network;
    return new SentinelConnector(this.#process, this.options, (options) => {
      const before = world.current;
      world.current = this.#process;
      const client = new SimRedis(this.network, options);
      world.current = before;
      return client;
    });
  }

  async #find(open: (port: number) => void, reject: (error: Error) => void): Promise<void> {
    this.#cancelOpening = null;
    try {
      open(await this.#sentinels!.connect((error) => this.#emitError(error)));
    } catch (error) {
      this.#endUnopened(reject, error as Error);
    }
  }

  #endUnopened(reject: (error: Error) => void, error: Error): void {
    this.#flush(error);
    this.#emitError(error);
    reject(error);
    this.#setStatus('end');
  }

  #open(port: number): void {
    const { connectTimeout } = this.options;
    const socket = this.network.socketTo(this.#process, port, {
      onConnect: () => (cancelTimeout(), this.#onConnect(socket)),
      onMessage: (channel, message) => this.emit('message', channel, message),
      onError: (error) => this.#emitError(error),
      onClose: () => (cancelTimeout(), this.#onClose()),
    });
    this.stream = socket;
    const giveUp = (): void => socket.fail(socketError('ETIMEDOUT', 'connect'));
    const cancelTimeout = connectTimeout ? this.#process.clock.setTimer(giveUp, connectTimeout) : () => undefined;
    socket.open();
  }

  #onConnect(socket: Socket): void {
    this.commandQueue = [];
    this.#setStatus('connect');
    const { enableReadyCheck } = this.options;
    this.#send(socket, 'hello', [3], () => (enableReadyCheck ? this.#checkReady(socket) : this.#onReady()));
  }

  /** Commands of the handshake go past the queues. */
  #send(socket: Socket, name: string, args: readonly unknown[], onReply: (reply: unknown) => void): void {
    socket.send(() => {
      this.network.execute(socket, name, args, (reply, error) => {
        socket.reply(() => {
          if (this.stream !== socket || this.status !== 'connect' || !socket.writable) return;
          if (error) this.#onFatal(error);
          else onReply(reply);
        });
      });
    });
  }

  #onFatal(error: Error): void {
    this.#flush(error);
    this.#emitError(error);
    this.disconnect(true);
  }

  #checkReady(socket: Socket): void {
    this.#send(socket, 'info', [], (info) => {
      if (!/^loading:1/m.test(String(info))) return this.#checkRole(String(info));
      const again = (): void => {
        if (this.stream === socket && this.status === 'connect') this.#checkReady(socket);
      };
      this.#process.clock.setTimer(again, Math.min(1_000, this.options.maxLoadingRetryTime));
    });
  }

  #checkRole(info: string): void {
    const role = /^role:(\w+)/m.exec(info)?.[1] ?? '';
    if (this.#sentinels && !this.#sentinels.check(role)) this.disconnect(true);
    else this.#onReady();
  }

  #onReady(): void {
    this.#setStatus('ready');
    this.#retries = 0;
    const { autoResubscribe, autoResendUnfulfilledCommands } = this.options;
    const channels = [...this.#previousChannels];
    this.#previousChannels = new Set();
    if (autoResubscribe && channels.length > 0) void this.subscribe(...channels);
    const unanswered = this.#previousQueue ?? [];
    this.#previousQueue = null;
    if (autoResendUnfulfilledCommands) for (const item of unanswered.splice(0)) this.sendCommand(item);
    for (const item of this.offlineQueue.splice(0)) this.sendCommand(item);
  }

  #onClose(): void {
    const before = this.status;
    if (before === 'end') return;
    this.#setStatus('close');
    if (before === 'ready') {
      this.#previousChannels = this.#channels;
      this.#channels = new Set();
      if (this.commandQueue.length > 0) this.#previousQueue = this.commandQueue;
    }
    if (this.#isClosing) {
      this.#isClosing = false;
      return this.#end();
    }
    const delayMs: unknown = this.options.retryStrategy?.((this.#retries += 1));
    if (typeof delayMs !== 'number') return this.#end();
    this.#setStatus('reconnecting');
    this.#cancelReconnect = this.#process.clock.setTimer(() => {
      this.#cancelReconnect = null;
      void this.connect().catch(() => undefined);
    }, delayMs);
    const { maxRetriesPerRequest: max } = this.options;
    if (typeof max === 'number' && max >= 0 && this.#retries % (max + 1) === 0) {
      const text = `Reached the max retries per request limit (which is ${max}). Refer to "maxRetriesPerRequest" option for details.`;
      this.#flush(Object.assign(new Error(text), { name: 'MaxRetriesPerRequestError' }));
    }
  }

  #end(): void {
    this.#setStatus('end');
    this.#flush(new Error(CLOSED));
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosing = true;
    if (!reconnect) {
      this.#cancelReconnect?.();
      this.#cancelReconnect = null;
    }
    if (this.status === 'wait') return this.#onClose();
    this.#cancelOpening?.();
    this.#sentinels?.disconnect();
    const { stream } = this;
    if (!stream || stream.isClosed) return;
    const cancel = this.#process.clock.setTimer(() => stream.destroy(), this.options.disconnectTimeout);
    this.#own.once('close', cancel);
    stream.end();
  }

  #flush(error: Error): void {
    for (const item of this.offlineQueue.splice(0)) item.reject(error);
    for (const item of this.commandQueue.splice(0)) item.reject(error);
  }

  #setStatus(status: Status): void {
    this.status = status;
    this.network.world.soon(() => {
      this.#own.emit(status);
      this.emit(status);
    });
  }

  /** Without a listener, ioredis writes the error to the console. */
  #emitError(error: Error): void {
    if (this.status !== 'end' && !this.#isClosing && this.listenerCount('error') > 0) this.emit('error', error);
  }

  #call(name: string, ...args: readonly unknown[]): Promise<any> {
    return new Promise((resolve, reject) => {
      const { commandTimeout } = this.options;
      const onLate = (): void => reject(new Error('Command timed out'));
      const cancel = commandTimeout ? this.#process.clock.setTimer(onLate, commandTimeout) : undefined;
      const end =
        <T>(settle: (value: T) => void) =>
        (value: T): void => (cancel?.(), settle(value));
      this.sendCommand({ name, args, resolve: end(resolve), reject: end(reject) });
    });
  }

  sendCommand(item: Item): void {
    if (this.status === 'wait') void this.connect().catch(() => undefined);
    if (this.status === 'end') return item.reject(new Error(CLOSED));
    const socket = this.stream;
    if (this.status !== 'ready' || !socket?.writable) {
      if (this.options.enableOfflineQueue) this.offlineQueue.push(item);
      else item.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
      return;
    }
    const queue = this.commandQueue;
    queue.push(item);
    socket.send(() => {
      this.network.execute(socket, item.name, item.args, (reply, error) => {
        socket.reply(() => this.#onReply(queue, item, reply, error));
      });
    });
  }

  #onReply(queue: Item[], item: Item, reply: unknown, error: Error | undefined): void {
    // The queue was flushed meanwhile.
    if (queue[0] !== item) return;
    queue.shift();
    if (error) item.reject(error);
    else item.resolve(reply);
  }

  evalsha(...args: readonly unknown[]): Promise<unknown> {
    return this.#call('evalsha', ...args);
  }

  eval(...args: readonly unknown[]): Promise<unknown> {
    return this.#call('eval', ...args);
  }

  info(...args: readonly unknown[]): Promise<string> {
    return this.#call('info', ...args);
  }

  call(name: string, ...args: readonly unknown[]): Promise<unknown> {
    return this.#call(name.toLowerCase(), ...args);
  }

  ping(): Promise<unknown> {
    return this.#call('ping');
  }

  time(): Promise<[string, string]> {
    return this.#call('time');
  }

  wait(...args: readonly unknown[]): Promise<number> {
    return this.#call('wait', ...args);
  }

  async subscribe(...channels: string[]): Promise<unknown> {
    const count: unknown = await this.#call('subscribe', ...channels);
    for (const channel of channels) this.#channels.add(channel);
    return count;
  }

  /** How many listeners its users have added. */
  get allListeners(): number {
    return this.eventNames().reduce((sum, name) => sum + this.listenerCount(name), 0);
  }

  get text(): string {
    const names = [...this.commandQueue, ...this.offlineQueue, ...(this.#previousQueue ?? [])].map(({ name }) => name);
    return `${this.status} client with ${names.join(' ')}`;
  }

  /** How many commands have no answer. */
  get unanswered(): number {
    return this.commandQueue.length + this.offlineQueue.length + (this.#previousQueue?.length ?? 0);
  }
}

const withoutUndefined = (options: RedisOptions): RedisOptions =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
