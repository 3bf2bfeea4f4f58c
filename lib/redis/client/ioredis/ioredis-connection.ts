import type { Redis, RedisOptions } from 'ioredis';
import { type LeadsToMaster, type MasterWatch, type SingleClient } from '../redis-client.js';
import { Sentinels } from '../sentinel-watch.js';
import { readScan, readTime, readWait } from '../replies.js';
import { type ServerAddress } from '../server-address.js';
import { type ClientOwner, IoredisBase, type NodeClient } from './ioredis-base.js';
import { OWN_OPTIONS, neverReconnect } from './ioredis-options.js';
import { sentinelGroupOf } from './sentinel-group.js';

/** One connection of ioredis: to a server, or to the master that sentinels name. */
export class IoredisConnection extends IoredisBase<Redis> implements NodeClient {
  readonly isCluster = false;
  #sentinels: Sentinels | null = null;

  /** `source`: what its duplicates are made from: the client of the application, or itself. */
  constructor(
    client: Redis,
    owner: ClientOwner,
    private readonly source: Redis = client,
  ) {
    super(client, owner);
  }

  get isWritable(): boolean {
    return this.client.status === 'ready' && this.client.stream.writable;
  }

  get address(): string {
    const { host, port, path, sentinels, name } = this.client.options;
    if (!sentinels) return path ?? `${host}:${port}`;
    return `sentinel ${name} of ${sentinels[0]?.host}:${sentinels[0]?.port ?? 26379}`;
  }

  get database(): number {
    return this.client.options.db ?? 0;
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

  duplicate(): SingleClient {
    const { db, Connector } = this.client.options;
    return this.owner.duplicateOf(this.source, { db, Connector, lazyConnect: false });
  }

  /** Opens one more connection to a node of a cluster; it ends when that node is gone. */
  duplicateNode(more: RedisOptions = {}): SingleClient {
    const copy = this.client.duplicate({
      ...OWN_OPTIONS,
      lazyConnect: false,
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
    // With a `Connector` of the application, the sentinel that comes first decides where it connects.
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
