import { EventEmitter } from 'node:events';
import { type RedisOptions } from 'ioredis';
import { type SimRedis } from './sim-redis.js';

export interface NodeAddress {
  readonly host: string;
  readonly port: number;
  readonly readOnly?: boolean;
}

type Role = 'all' | 'master' | 'slave';

export const keyOf = ({ host, port }: { readonly host?: string; readonly port?: number }): string => `${host}:${port}`;

/** The connections of a cluster client to its nodes, as in ioredis 6 (built/cluster/ConnectionPool.js). */
export class SimPool extends EventEmitter {
  readonly #nodes: Readonly<Record<Role, Map<string, SimRedis>>> = {
    all: new Map(),
    master: new Map(),
    slave: new Map(),
  };

  constructor(
    private readonly open: (options: RedisOptions) => SimRedis,
    private readonly redisOptions: RedisOptions,
    private readonly retryStrategy: RedisOptions['retryStrategy'] | null,
  ) {
    super();
    this.setMaxListeners(0);
  }

  nodes(role: Role): SimRedis[] {
    return [...this.#nodes[role].values()];
  }

  at(key: string): SimRedis | undefined {
    return this.#nodes.all.get(key);
  }

  findOrCreate(node: NodeAddress, readOnly = false): SimRedis {
    const key = keyOf(node);
    const known = this.#nodes.all.get(key);
    if (!known) return this.#create(key, node, readOnly);
    if (known.options.readOnly !== readOnly) {
      known.options.readOnly = readOnly;
      known.call(readOnly ? 'readonly' : 'readwrite').catch(() => undefined);
      this.#nodes[readOnly ? 'master' : 'slave'].delete(key);
      this.#nodes[readOnly ? 'slave' : 'master'].set(key, known);
    }
    return known;
  }

  /** Replaces a connection that is stale. */
  recreate(node: NodeAddress): void {
    const key = keyOf(node);
    const existing = this.#nodes.all.get(key);
    if (existing) {
      this.#remove(key);
      existing.disconnect();
    }
    this.findOrCreate(node);
    if (existing) this.emit('-node', existing);
  }

  reset(nodes: readonly NodeAddress[]): void {
    const wanted = new Map<string, NodeAddress>();
    for (const node of nodes) if (!(node.readOnly && wanted.has(keyOf(node)))) wanted.set(keyOf(node), node);
    for (const [key, redis] of this.#nodes.all) {
      if (wanted.has(key)) continue;
      redis.disconnect();
      this.#remove(key);
    }
    for (const node of wanted.values()) this.findOrCreate(node, node.readOnly);
  }

  #create(key: string, { host, port }: NodeAddress, readOnly: boolean): SimRedis {
    const defaults = { retryStrategy: this.retryStrategy ?? null, enableOfflineQueue: true, readOnly };
    const redis = this.open({ ...this.redisOptions, ...defaults, host, port, lazyConnect: true });
    this.#nodes.all.set(key, redis);
    this.#nodes[readOnly ? 'slave' : 'master'].set(key, redis);
    redis.once('end', () => {
      const present = this.#nodes.all.get(key);
      if (present && present !== redis) return;
      this.#remove(key);
      this.emit('-node', redis);
      if (this.#nodes.all.size === 0) this.emit('drain');
    });
    this.emit('+node', redis);
    redis.on('error', (error: Error) => this.emit('nodeError', error, key));
    return redis;
  }

  #remove(key: string): void {
    for (const nodes of Object.values(this.#nodes)) nodes.delete(key);
  }
}
