import { errorMonitor } from 'node:events';
import { type ClientParts } from '../client-library.js';
import { type ClientEvents, type ClientStatus, type SingleClient } from '../redis-client.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { ClientEmitter } from './client-emitter.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { connectTimeoutOf, keyPrefixOf, ownOptions } from './node-redis-options.js';
import { type NodeRedis, type NodeRedisOptions } from './node-redis-types.js';
import { OwnConnection } from './own-connection.js';
import { errorOfConnection, newLoss, sendBy } from './sending.js';

/**
 * A client of `createClient` that belongs to the application: it is used while it is ready, and never opened, closed or changed.
 * Whatever is not connected yet counts as ended, because an application that connects it later must not find it connected.
 */
export class GivenConnection extends NodeRedisCommands implements SingleClient {
  readonly isCluster = false;
  readonly endsForGood = false;
  readonly #events = new ClientEmitter((isHeard) => (isHeard ? this.#attach() : this.#detach()));
  #detach = (): void => undefined;
  /** Where it is between two connections, as its events tell. */
  #phase: 'connecting' | 'connected' | 'closed' = 'connecting';
  /** Takes back the commands that were not written when the connection was lost. */
  #loss = newLoss();
  /** The database, where it was asked for. */
  #selected: number | undefined;

  constructor(
    private readonly client: NodeRedis,
    private readonly parts: ClientParts,
  ) {
    super();
  }

  get status(): ClientStatus {
    if (this.client.isReady) return 'ready';
    return this.client.isOpen ? this.#phase : 'ended';
  }

  get isWritable(): boolean {
    return this.client.isReady;
  }

  get keyPrefix(): string {
    return keyPrefixOf(this.#options);
  }

  get address(): string {
    const { path } = this.#options.socket ?? {};
    return path ?? addressText(this.#server);
  }

  /** node-redis does not tell which database `select` has chosen; it is asked for each time that a connection is ready. */
  get database(): number {
    return this.#selected ?? this.#options.database ?? 0;
  }

  get peer(): ServerAddress | null {
    const isConnected = this.client.isReady || (this.client.isOpen && this.#phase === 'connected');
    return isConnected && this.#options.socket?.path === undefined ? this.#server : null;
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.#events.on(event, listener);
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.#events.once(event, listener);
  }

  /** Connecting, cutting and closing it is up to the application. */
  async connect(): Promise<void> {}

  reconnect(): void {}

  disconnect(): void {}

  async close(): Promise<void> {}

  supervise(): () => void {
    return () => undefined;
  }

  /** With the options, and thus the credentials, that the client has when a connection begins. */
  duplicate(): OwnConnection {
    const { address, database, keyPrefix, client } = this;
    const connectTimeout = connectTimeoutOf(this.#options);
    const make = (cut: AbortSignal): NodeRedis => client.duplicate({ ...ownOptions(this.#options, {}, cut), database });
    const peer = this.#options.socket?.path === undefined ? this.#server : null;
    const plan = { address, database, keyPrefix, connectTimeout, endsForGood: false, target: { make, peer } };
    return OwnConnection.opened(plan, this.parts);
  }

  openSubscriber(): OwnConnection {
    return this.duplicate();
  }

  watchMaster(): null {
    return null;
  }

  async subscribe(): Promise<void> {
    throw new Error('A given client is not subscribed by: its messages belong to the application.');
  }

  protected override send(args: readonly string[]): Promise<unknown> {
    return sendBy(this.client, args, this.#loss.signal);
  }

  get #options(): NodeRedisOptions {
    return this.client.options ?? {};
  }

  get #server(): ServerAddress {
    const { host = 'localhost', port = 6379 } = this.#options.socket ?? {};
    return { host: host === '' ? 'localhost' : host, port };
  }

  #attach(): void {
    const events: readonly (readonly [string | symbol, (error: Error) => void])[] = [
      // No listener: without one of its own, the application hears of no error that node-redis throws.
      [errorMonitor, (error) => this.#onError(error)],
      ['reconnecting', () => this.#become('connecting')],
      ['connect', () => this.#become('connected')],
      ['ready', () => this.#onReady()],
      ['end', () => this.#onEnd()],
    ];
    for (const [event, listener] of events) this.client.on(event, listener);
    if (this.client.isReady) this.#phase = 'connected';
    this.#detach = () => {
      for (const [event, listener] of events) this.client.off(event, listener);
    };
    if (this.client.isReady) void this.#askDatabase();
  }

  #become(phase: 'connecting' | 'connected'): void {
    this.#phase = phase;
    this.#events.emit(phase);
  }

  #onReady(): void {
    void this.#askDatabase();
    this.#events.emit('ready');
  }

  /** Also errors of pings and listeners come here: it is lost only when the client is not ready any more. */
  #onError(error: Error): void {
    const told = errorOfConnection(error);
    if (told) this.#events.emit('error', told);
    if (this.client.isReady) return;
    this.#lose();
    if (!this.client.isOpen) this.#events.emit('ended');
  }

  #onEnd(): void {
    this.#lose();
    this.#events.emit('ended');
  }

  #lose(): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    this.#loss.abort();
    this.#loss = newLoss();
    this.#events.emit('closed');
  }

  /** Where CLIENT INFO is refused or unknown, the option counts. */
  async #askDatabase(): Promise<void> {
    const before = this.database;
    const info = await this.send(['client', 'info']).catch(() => '');
    const [, selected] = /\bdb=(\d+)/.exec(String(info)) ?? [];
    if (selected === undefined) return;
    this.#selected = Number(selected);
    if (this.#selected !== before) this.#events.emit('database');
  }
}
