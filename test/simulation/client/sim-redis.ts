import { EventEmitter } from 'node:events';
import { type RedisOptions } from 'ioredis';
import { type Network, Socket, socketError } from '../network/network.js';
import { type SimProcess } from '../world/sim-process.js';
import { type Options, optionsOf } from './options.js';
import { type Item, RedisCommands } from './redis-commands.js';
import { type MasterConnector } from '../../../lib/redis/client/ioredis/connections.js';

/** The client whose connection it is. */
interface Client {
  /** Whether it still waits for this handshake. */
  isGoingOn(): boolean;
  hasRightRole(role: string): boolean;
  onReady(): void;
  onWrongRole(): void;
  onFatal(error: Error): void;
}

/** The first commands of a connection; they go past the queues. */
class Handshake {
  constructor(
    private readonly network: Network,
    private readonly process: SimProcess,
    private readonly socket: Socket,
    private readonly options: Options,
    private readonly client: Client,
  ) {}

  start(): void {
    const { enableReadyCheck } = this.options;
    this.#send('hello', [3], () => (enableReadyCheck ? this.#checkReady() : this.client.onReady()));
  }

  #send(name: string, args: readonly unknown[], onReply: (reply: unknown) => void): void {
    const { network, socket, client } = this;
    socket.send(() => {
      network.execute(socket, name, args, (reply, error) => {
        socket.reply(() => {
          if (!client.isGoingOn() || !socket.writable) return;
          if (error) client.onFatal(error);
          else onReply(reply);
        });
      });
    });
  }

  #checkReady(): void {
    this.#send('info', [], (info) => {
      if (!/^loading:1/m.test(String(info))) return this.#checkRole(String(info));
      const again = (): void => {
        if (this.client.isGoingOn()) this.#checkReady();
      };
      this.process.clock.setTimer(again, Math.min(1_000, this.options.maxLoadingRetryTime));
    });
  }

  #checkRole(info: string): void {
    const role = /^role:(\w+)/m.exec(info)?.[1] ?? '';
    if (this.client.hasRightRole(role)) this.client.onReady();
    else this.client.onWrongRole();
  }
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

const CLOSED = 'Connection is closed.';

/**
 * Asks one sentinel after the other for the master, as ioredis 6 does (built/connectors/SentinelConnector): each question
 * has a connection of its own.
 */
class SentinelConnector {
  readonly #sentinels: Endpoint[];
  #cursor = 0;
  #isConnecting = false;
  #retries = 0;

  constructor(
    private readonly process: SimProcess,
    private readonly options: RedisOptions,
    private readonly open: (options: RedisOptions) => SimRedis,
  ) {
    this.#sentinels = options.sentinels!.map(({ host, port }) => ({ host: host!, port: port! }));
  }

  /** Resolves with the port of the master. */
  async connect(onError: (error: Error) => void): Promise<number> {
    this.#isConnecting = true;
    this.#retries = 0;
    let lastError: Error | undefined;
    for (;;) {
      const sentinel = this.#sentinels[this.#cursor++];
      if (!sentinel) {
        this.#cursor = 0;
        await this.#pause(lastError, onError);
        continue;
      }
      const found = await this.#ask(sentinel).catch((error: Error) => error);
      if (!this.#isConnecting) throw new Error(CLOSED);
      if (typeof found === 'number') return found;
      lastError = found;
    }
  }

  disconnect(): void {
    this.#isConnecting = false;
  }

  /** Whether the role of a server is right; otherwise the next sentinel is asked first. */
  check(role: string): boolean {
    if (role === 'master') return true;
    this.#cursor = Math.min(this.#cursor + 2, this.#sentinels.length);
    if (this.#sentinels.length > 1 && this.#cursor !== 1) {
      this.#sentinels.unshift(...this.#sentinels.splice(this.#cursor - 1));
    }
    this.#cursor = 0;
    return false;
  }

  async #pause(lastError: Error | undefined, onError: (error: Error) => void): Promise<void> {
    const delayMs = this.options.sentinelRetryStrategy?.((this.#retries += 1));
    const what = typeof delayMs === 'number' ? `Retrying from scratch after ${delayMs}ms.` : 'and retry is disabled.';
    const text = `All sentinels are unreachable. ${what}${lastError ? ` Last error: ${lastError.message}` : ''}`;
    if (typeof delayMs !== 'number') throw new Error(text);
    onError(new Error(text));
    await this.process.sleep(delayMs);
  }

  async #ask({ host, port }: Endpoint): Promise<number> {
    const { connectTimeout, sentinelCommandTimeout: commandTimeout } = this.options;
    const limits = { connectTimeout: connectTimeout!, ...(commandTimeout === undefined ? {} : { commandTimeout }) };
    const client = this.open({ host, port, ...limits, retryStrategy: null, enableReadyCheck: false });
    client.on('error', () => undefined);
    try {
      const [, master] = (await client.call('SENTINEL', 'get-master-addr-by-name', this.options.name)) as string[];
      if (this.options.updateSentinels !== false) await this.#learnFrom(client);
      return Number(master);
    } finally {
      client.disconnect();
    }
  }

  async #learnFrom(client: SimRedis): Promise<void> {
    const others = (await client.call('SENTINEL', 'sentinels', this.options.name)) as string[][];
    for (const fields of others) {
      const valueOf = (field: string): string => fields[fields.indexOf(field) + 1]!;
      if (valueOf('flags').includes('disconnected')) continue;
      const other = { host: valueOf('ip'), port: Number(valueOf('port')) };
      if (!this.#sentinels.some(({ port }) => port === other.port)) this.#sentinels.push(other);
    }
  }
}

export type Status = 'wait' | 'connecting' | 'connect' | 'ready' | 'close' | 'reconnecting' | 'end';

/**
 * Stands for a client of ioredis 6, with its states, its queues and its reconnections (built/Redis.js, built/redis/
 * event_handler.js).
 */
export class SimRedis extends RedisCommands {
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
  #cancelOpening: (() => void) | null = null;
  /** Looks for the master behind Sentinel. */
  readonly #sentinels: Pick<SentinelConnector, 'connect' | 'check' | 'disconnect'> | null;
  /** Its own listeners, apart from those of its users. */
  readonly #own = new EventEmitter();

  /** It belongs to the process whose code runs now. */
  constructor(
    private readonly network: Network,
    given: RedisOptions = {},
  ) {
    super(network.world.current!);
    this.setMaxListeners(0);
    this.options = optionsOf(given);
    this.#sentinels = given.sentinels ? (this.#connectorOfLibrary() ?? this.#sentinelConnector()) : null;
    network.add(this, this.process);
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

  /** That of the library asks by simulated clients; only the socket is opened here. */
  #connectorOfLibrary(): Pick<SentinelConnector, 'connect' | 'check' | 'disconnect'> | null {
    const { Connector } = this.options as { Connector?: new (options: unknown) => MasterConnector };
    if (!Connector) return null;
    const connector = new Connector(this.options);
    return {
      connect: async (onError) => (await connector.find((_type, error) => onError(error))).port,
      check: (role) => connector.check({ role }),
      disconnect: () => connector.disconnect(),
    };
  }

  #sentinelConnector(): SentinelConnector {
    const { world } = this.network;
    return new SentinelConnector(this.process, this.options, (options) => {
      const before = world.current;
      world.current = this.process;
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
    const socket = this.network.socketTo(this.process, port, {
      onConnect: () => (cancelTimeout(), this.#onConnect(socket)),
      onMessage: (channel, message) => this.emit('message', channel, message),
      onError: (error) => this.#emitError(error),
      onClose: () => (cancelTimeout(), this.#onClose()),
    });
    this.stream = socket;
    const giveUp = (): void => socket.fail(socketError('ETIMEDOUT', 'connect'));
    const cancelTimeout = connectTimeout ? this.process.clock.setTimer(giveUp, connectTimeout) : () => undefined;
    socket.open();
  }

  #onConnect(socket: Socket): void {
    this.commandQueue = [];
    this.#setStatus('connect');
    const handshake = new Handshake(this.network, this.process, socket, this.options, {
      isGoingOn: () => this.stream === socket && this.status === 'connect',
      hasRightRole: (role) => this.#sentinels?.check(role) ?? true,
      onReady: () => this.#onReady(),
      onWrongRole: () => this.disconnect(true),
      onFatal: (error) => this.#onFatal(error),
    });
    handshake.start();
  }

  #onFatal(error: Error): void {
    this.#flush(error);
    this.#emitError(error);
    this.disconnect(true);
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
    this.#cancelReconnect = this.process.clock.setTimer(() => {
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
    const cancel = this.process.clock.setTimer(() => stream.destroy(), this.options.disconnectTimeout);
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

  async subscribe(...channels: string[]): Promise<unknown> {
    const count: unknown = await this.command('subscribe', ...channels);
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
