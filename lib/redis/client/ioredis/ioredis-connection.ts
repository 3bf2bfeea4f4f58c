import type { Redis, RedisOptions } from 'ioredis';
import {
  CONNECT_TIMEOUT_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  SENTINEL_COMMAND_TIMEOUT_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { type LeadsToMaster, type MasterWatch, type SingleClient } from '../redis-client.js';
import { Sentinels } from '../sentinel-watch.js';
import { readScan, readTime, readWait } from '../replies.js';
import { type ServerAddress } from '../server-address.js';
import { IoredisBase, type NodeClient } from './ioredis-base.js';
import { OWN_OPTIONS, neverReconnect } from './ioredis-options.js';
import { connectorTo, sentinelGroupOf } from './sentinel-group.js';

/** One connection of ioredis: to a server, or to the master that sentinels name. */
export class IoredisConnection extends IoredisBase<Redis> implements NodeClient {
  readonly isCluster = false;
  #sentinels: Sentinels | null = null;

  get isWritable(): boolean {
    return this.client.status === 'ready' && this.client.stream.writable;
  }

  get address(): string {
    const { host, port, path, sentinels, name } = this.client.options;
    if (!sentinels) return path ?? `${host}:${port}`;
    return `sentinel ${name} of ${sentinels[0]?.host}:${sentinels[0]?.port ?? 26379}`;
  }

  get database(): number {
    const { prevCondition } = this.client as unknown as { readonly prevCondition?: Redis['condition'] };
    return (prevCondition ?? this.client.condition)?.select ?? this.client.options.db ?? 0;
  }

  get peer(): ServerAddress | null {
    const { remoteAddress, remotePort } = this.client.stream ?? {};
    if (remotePort === undefined) return null;
    return { host: (remoteAddress ?? '').replace(/^::ffff:/, ''), port: remotePort };
  }

  /** Those of a connection by sentinels. */
  get sentinels(): Sentinels {
    const { parts } = this.owner;
    return (this.#sentinels ??= new Sentinels(sentinelGroupOf(this.client, parts.clock), parts));
  }

  protected get sockets() {
    return [this.client.stream];
  }

  /**
   * With the database, and with the credentials that the original has when a connection begins. It never resubscribes by
   * itself: ioredis leaves that rejection unhandled when the connection closes meanwhile.
   */
  duplicate(): SingleClient {
    const { client } = this;
    const { connectTimeout, sentinelCommandTimeout, sentinels, Connector } = client.options;
    const isChosen = connectTimeout && connectTimeout !== IOREDIS_CONNECT_TIMEOUT_MS;
    const copy = client.duplicate({
      ...OWN_OPTIONS,
      connectTimeout: isChosen ? connectTimeout : CONNECT_TIMEOUT_MS,
      sentinelCommandTimeout: sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
      db: this.database,
      lazyConnect: false,
      autoResubscribe: false,
      ...(sentinels && { Connector: Connector ?? connectorTo(() => this.sentinels, this.owner.parts.clock) }),
    });
    copy.options.retryStrategy = (times) => {
      const { username, password } = client.options;
      Object.assign(copy.options, { username, password });
      return reconnectDelayMs(times);
    };
    return this.owner.ofOwn(copy);
  }

  /** Opens one more connection to a node of a cluster; it ends when that node is gone. */
  duplicateNode(more: RedisOptions = {}): SingleClient {
    const copy = this.client.duplicate({
      ...OWN_OPTIONS,
      lazyConnect: false,
      autoResubscribe: false,
      readOnly: false,
      retryStrategy: neverReconnect,
      ...more,
    });
    return this.owner.ofOwn(copy);
  }

  openSubscriber(): SingleClient {
    return this.duplicate();
  }

  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null {
    if (!this.client.options.sentinels) return null;
    const watch = this.sentinels.watch(onMaster);
    // A client of the application asks one sentinel each time that it connects.
    const stop = this.on('connected', () => watch.repeat());
    const close = (): Promise<void> => {
      stop();
      return watch.close();
    };
    return { close };
  }

  disconnect(): void {
    this.client.disconnect(false);
  }

  /** ioredis sends it, too, and takes the connection as ready when it is refused. */
  async select(): Promise<void> {
    await this.client.select(this.database);
  }

  asking(): void {
    // It is valid for the next command only, which reports a refusal.
    this.client.asking().catch(() => undefined);
  }

  info(section?: 'server'): Promise<string> {
    return section ? this.client.info(section) : this.client.info();
  }

  call([name, ...words]: readonly [string, ...string[]]): Promise<unknown> {
    return this.client.call(name, ...words);
  }

  async time(): Promise<number> {
    return readTime(await this.client.time());
  }

  async scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]]> {
    return readScan(await this.client.scan(cursor, 'MATCH', pattern, 'COUNT', count));
  }

  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return readWait(await this.client.wait(replicas, timeoutMs));
  }

  async subscribe(channel: string): Promise<void> {
    await this.client.subscribe(channel);
  }
}
