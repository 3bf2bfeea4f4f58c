import { type SimCluster } from './sim-cluster.js';
import { keyOf, type NodeAddress } from './sim-pool.js';
import { type SimRedis } from './sim-redis.js';

type Callback = (error?: Error) => void;
type Range = readonly [first: number, last: number, ...nodes: (readonly [host: string, port: number])[]];

/** Asks one node after the other which node serves which slot, as ioredis 6 does: by a new connection each time. */
export class SlotsQuestion {
  static readonly allFailed = 'Failed to refresh slots cache.';
  #isAsking = false;
  #callbacks: Callback[] = [];

  constructor(private readonly cluster: SimCluster) {}

  ask(callback?: Callback): void {
    if (callback) this.#callbacks.push(callback);
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#askNext(this.cluster.shuffled(this.cluster.pool.nodes('all')), null);
  }

  #askNext([node, ...others]: readonly SimRedis[], lastNodeError: Error | null): void {
    const { cluster } = this;
    if (!node) return this.#end(Object.assign(new Error(SlotsQuestion.allFailed), { lastNodeError }));
    this.#askNode(node, (error) => {
      const { status } = cluster;
      if (status === 'close' || status === 'end') return this.#end(new Error('Cluster is disconnected.'));
      if (status === 'disconnecting') return this.#end(new Error('Cluster is disconnecting.'));
      if (!error) {
        cluster.emit('refresh');
        return this.#end();
      }
      cluster.emit('node error', error, keyOf(node.options));
      return this.#askNext(others, error);
    });
    return undefined;
  }

  #end(error?: Error): void {
    this.#isAsking = false;
    const callbacks = this.#callbacks;
    for (const callback of callbacks) callback(error);
    this.#callbacks = [];
  }

  #askNode(node: SimRedis, callback: Callback): void {
    const { cluster } = this;
    const { slotsRefreshTimeout } = cluster.options;
    const asking = cluster.openNode({
      ...node.options,
      enableOfflineQueue: true,
      enableReadyCheck: false,
      retryStrategy: null,
      lazyConnect: false,
    });
    asking.on('error', () => undefined);
    let isOver = false;
    const settle = (error: Error | null, ranges: readonly Range[]): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      asking.disconnect();
      if (error) return callback(error);
      if (!['disconnecting', 'close', 'end'].includes(cluster.status)) this.#apply(ranges);
      return callback();
    };
    const cancel = cluster.process.clock.setTimer(() => settle(new Error('timeout'), []), slotsRefreshTimeout);
    asking.call('cluster', 'SLOTS').then(
      (ranges) => settle(null, ranges as Range[]),
      (error: Error) => settle(error, []),
    );
  }

  #apply(ranges: readonly Range[]): void {
    const all: NodeAddress[] = [];
    for (const [first, last, ...nodes] of ranges) {
      const found = nodes.map(([host, port], i) => ({ host, port, readOnly: i > 0 }));
      all.push(...found);
      const keys = found.map(keyOf);
      for (let slot = first; slot <= last; slot += 1) this.cluster.slots[slot] = keys;
    }
    this.cluster.pool.reset(all);
  }
}
