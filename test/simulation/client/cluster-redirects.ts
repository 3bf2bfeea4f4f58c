import { type SimCluster } from './sim-cluster.js';
import { keyOf, type NodeAddress } from './sim-pool.js';
import { type Item } from './redis-commands.js';
import { type SimRedis } from './sim-redis.js';

/** A command that follows the redirections of the nodes. */
export interface RoutedItem extends Item {
  slot: number | undefined;
}

type Send = (item: RoutedItem, how?: { random?: boolean; asking?: string }) => void;

/** What a cluster client of ioredis 6 does with the errors of its nodes (`handleError` in built/cluster/index.js). */
export class ClusterRedirects {
  readonly #sentBy = new WeakMap<Item, SimRedis>();
  /** Commands that are sent again together, by the reason. */
  readonly #delayed = new Map<string, (() => void)[]>();

  constructor(
    private readonly client: SimCluster,
    private readonly send: Send,
  ) {}

  follow({ name, args, resolve, reject }: Item, slot: number | undefined): RoutedItem {
    let left: number | undefined;
    const item: RoutedItem = {
      name,
      args,
      slot,
      resolve,
      reject: (error) => {
        left = left === undefined ? this.client.options.maxRedirections : left - 1;
        if (left <= 0) return reject(new Error(`Too many Cluster redirections. Last error: ${String(error)}`));
        if (!this.#handle(item, error)) reject(error);
        return undefined;
      },
    };
    return item;
  }

  onSent(item: Item, redis: SimRedis): void {
    this.#sentBy.set(item, redis);
  }

  /** Returns whether the command is sent again. */
  #handle(item: RoutedItem, { message }: Error): boolean {
    const { options, status } = this.client;
    const [kind, slot, address] = message.split(' ');
    const again = (): void => this.send(item, { random: true });
    const refresh = (run: () => void): void => this.client.refreshSlotsCache(run);
    if (kind === 'MOVED') {
      const moved = (): void => this.#onMoved(item, Number(slot), address!);
      if (options.retryDelayOnMoved) this.#later('moved', moved, options.retryDelayOnMoved);
      else moved();
    } else if (kind === 'ASK') {
      this.client.pool.findOrCreate(nodeAt(address!));
      this.send(item, { asking: address! });
    } else if (kind === 'TRYAGAIN') this.#later('tryagain', again, options.retryDelayOnTryAgain);
    else if (kind === 'CLUSTERDOWN' && options.retryDelayOnClusterDown > 0) {
      this.#later('clusterdown', again, options.retryDelayOnClusterDown, refresh);
    } else if (message === 'Connection is closed.' && options.retryDelayOnFailover > 0 && status === 'ready') {
      this.#later('failover', again, options.retryDelayOnFailover, refresh);
    } else return false;
    return true;
  }

  #onMoved(item: RoutedItem, slot: number, address: string): void {
    const { client } = this;
    item.slot = slot;
    if (client.slots[slot]) client.slots[slot][0] = address;
    else client.slots[slot] = [address];
    const last = this.#sentBy.get(item);
    if (last && keyOf(last.options) === address && client.pool.at(address) === last) {
      client.pool.recreate(nodeAt(address));
    } else client.pool.findOrCreate(nodeAt(address));
    this.send(item);
    client.refreshSlotsCache();
  }

  #later(
    bucket: string,
    run: () => void,
    delayMs: number,
    before: (then: () => void) => void = (then) => then(),
  ): void {
    const waiting = this.#delayed.get(bucket);
    if (waiting) return void waiting.push(run);
    this.#delayed.set(bucket, [run]);
    const execute = (): void => {
      const runs = this.#delayed.get(bucket) ?? [];
      this.#delayed.delete(bucket);
      for (const one of runs) one();
    };
    this.client.process.clock.setTimer(() => before(execute), delayMs);
    return undefined;
  }
}

function nodeAt(address: string): NodeAddress {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}
