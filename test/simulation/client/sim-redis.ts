import { EventEmitter } from 'node:events';
import { type ClusterOptions, type RedisOptions } from 'ioredis';
import { type Network, Socket, socketError } from '../network/network.js';
import { type SimProcess } from '../world/sim-process.js';

/** The defaults of ioredis 6. */
const DEFAULTS = {
  host: 'localhost',
  port: 6379,
  db: 0,
  connectTimeout: 10_000,
  disconnectTimeout: 2_000,
  enableReadyCheck: true,
  maxLoadingRetryTime: 10_000,
};

type Options = typeof DEFAULTS & RedisOptions;

const optionsOf = (given: RedisOptions) => {
  const chosen = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...DEFAULTS, ...Object.fromEntries(chosen) } as Options;
};

/** The client whose connection it is. */
interface Client {
  /** Whether it still waits for this handshake. */
  isGoingOn(): boolean;
  onReady(): void;
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
      if (!/^loading:1/m.test(String(info))) return this.client.onReady();
      const again = (): void => {
        if (this.client.isGoingOn()) this.#checkReady();
      };
      this.process.clock.setTimer(again, Math.min(1_000, this.options.maxLoadingRetryTime));
    });
  }
}

const CLOSED = 'Connection is closed.';

/** A command that has been called, and not been answered. */
export interface Item {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

export type Status = 'wait' | 'connecting' | 'connect' | 'ready' | 'close' | 'end';

/**
 * Stands for a client of ioredis 6, with its states and its queue (built/Redis.js, built/redis/event_handler.js), as far as the library
 * uses one: it neither reconnects nor queues what it cannot send.
 */
export class SimRedis extends EventEmitter {
  readonly isCluster = false;
  status: Status = 'wait';
  readonly options: Options;
  readonly process: SimProcess;
  stream: Socket | undefined;
  commandQueue: Item[] = [];
  #isClosing = false;
  #cancelOpening: (() => void) | null = null;
  /** Its own listeners, apart from those of its users. */
  readonly #own = new EventEmitter();

  /** It belongs to the process whose code runs now. */
  constructor(
    private readonly network: Network,
    given: RedisOptions = {},
  ) {
    super();
    this.process = network.world.current!;
    this.setMaxListeners(0);
    this.options = optionsOf(given);
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
      this.network.world.soon(openSoon);
    });
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
      onReady: () => this.#onReady(),
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
  }

  #onClose(): void {
    if (this.status === 'end') return;
    this.#setStatus('close');
    this.#end();
  }

  #end(): void {
    this.#setStatus('end');
    this.#flush(new Error(CLOSED));
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosing = true;
    if (this.status === 'wait') return this.#onClose();
    this.#cancelOpening?.();
    const { stream } = this;
    if (!stream || stream.isClosed) return;
    const cancel = this.process.clock.setTimer(() => stream.destroy(), this.options.disconnectTimeout);
    this.#own.once('close', cancel);
    stream.end();
  }

  #flush(error: Error): void {
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
    if (this.status === 'end') return item.reject(new Error(CLOSED));
    const socket = this.stream;
    if (this.status !== 'ready' || !socket?.writable) {
      return item.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
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

  /** A simulated address leads to one server. The scripts that ask for that are not sent: they would change the plans of all seeds. */
  call(name: string, ...args: readonly unknown[]): Promise<unknown> {
    const word = name.toLowerCase();
    if (word === 'eval' && String(args[0]).includes("redis.pcall('INFO'")) return Promise.resolve('');
    return new Promise((resolve, reject) => this.sendCommand({ name: word, args, resolve, reject }));
  }

  /** By it, a client is recognised; the library calls it by `call`. */
  evalsha(...args: readonly unknown[]): Promise<unknown> {
    return this.call('evalsha', ...args);
  }

  eval(...args: readonly unknown[]): Promise<unknown> {
    return this.call('eval', ...args);
  }

  subscribe(...channels: string[]): Promise<unknown> {
    return this.call('subscribe', ...channels);
  }

  /** How many listeners its users have added. */
  get allListeners(): number {
    return this.eventNames().reduce((sum, name) => sum + this.listenerCount(name), 0);
  }

  get text(): string {
    const names = this.commandQueue.map(({ name }) => name);
    return `${this.status} client with ${names.join(' ')}`;
  }

  /** How many commands have no answer. */
  get unanswered(): number {
    return this.commandQueue.length;
  }
}

/** Stands for a cluster client of ioredis 6 that an application passes in: only its options are used, and the class of its nodes. */
export class SimCluster extends EventEmitter {
  readonly isCluster = true;
  readonly connectionPool = {
    findOrCreate: (node: object) => void this.#nodes.push(new SimRedis(this.network, { ...node, lazyConnect: true })),
  };
  readonly #nodes: SimRedis[] = [];

  constructor(
    private readonly network: Network,
    readonly startupNodes: readonly object[],
    readonly options: ClusterOptions = {},
  ) {
    super();
  }

  duplicate(nodes: readonly object[], changes: ClusterOptions): SimCluster {
    return new SimCluster(this.network, nodes, { ...this.options, ...changes });
  }

  nodes(): readonly SimRedis[] {
    return this.#nodes;
  }

  get allListeners(): number {
    return this.eventNames().reduce((sum, name) => sum + this.listenerCount(name), 0);
  }

  evalsha(): void {}

  eval(): void {}

  connect(): void {}

  disconnect(): void {}
}
