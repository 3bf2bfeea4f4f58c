import { type SingleClient } from '../redis-client.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { type Shard } from './cluster-slots-answer.js';
import { type OwnConnection } from './own-connection.js';

interface Node {
  readonly at: ServerAddress;
  readonly connection: OwnConnection;
  isMaster: boolean;
}

/** The connections to the nodes of a cluster, and which of them serves a slot. */
export class NodesOfCluster {
  readonly #nodes = new Map<string, Node>();
  readonly #masters: (ServerAddress | undefined)[] = [];
  /** What is attached to each node, and what it left there. */
  readonly #attached = new Map<(node: SingleClient) => () => void, Map<OwnConnection, () => void>>();

  /** `open` makes a connection that is not connected yet. */
  constructor(
    private readonly open: (at: ServerAddress) => OwnConnection,
    private readonly reachedBy: (announced: ServerAddress) => ServerAddress,
  ) {}

  get addresses(): readonly ServerAddress[] {
    return [...this.#nodes.values()].map(({ at }) => at);
  }

  of(role: 'master' | 'all'): readonly OwnConnection[] {
    const nodes = [...this.#nodes.values()].filter(({ isMaster }) => role === 'all' || isMaster);
    return nodes.map(({ connection }) => connection);
  }

  at(address: ServerAddress): OwnConnection | undefined {
    return this.#nodes.get(addressText(address))?.connection;
  }

  masterOf(slot: number): ServerAddress | undefined {
    return this.#masters[slot];
  }

  /** Takes over what a node has answered: connects to masters, and leaves nodes that are gone. */
  update(shards: readonly Shard[]): void {
    const before = new Set(this.#nodes.keys());
    this.#masters.length = 0;
    for (const { from, to, master, replicas } of shards) {
      const at = this.reachedBy(master);
      for (let slot = from; slot <= to; slot++) this.#masters[slot] = at;
      before.delete(this.add(at, true));
      for (const replica of replicas) before.delete(this.add(this.reachedBy(replica), false));
    }
    for (const name of before) this.#remove(name);
  }

  /** A node has named another one as the master of a slot. */
  move(slot: number, to: ServerAddress): void {
    this.#masters[slot] = to;
    this.add(to, true);
  }

  /** Adds a node, and connects to it if it is a master; returns its name. */
  add(at: ServerAddress, isMaster = true): string {
    const name = addressText(at);
    let node = this.#nodes.get(name);
    if (!node) {
      node = { at, connection: this.open(at), isMaster };
      this.#nodes.set(name, node);
      for (const [attach, places] of this.#attached) places.set(node.connection, attach(node.connection));
    }
    node.isMaster = isMaster;
    if (isMaster && node.connection.status === 'idle') node.connection.connect().catch(() => undefined);
    return name;
  }

  attach(attach: (node: SingleClient) => () => void): () => void {
    const places = new Map<OwnConnection, () => void>();
    this.#attached.set(attach, places);
    for (const node of this.of('all')) places.set(node, attach(node));
    return () => {
      this.#attached.delete(attach);
      for (const detach of places.values()) detach();
    };
  }

  /** Cuts all connections; they are opened again. */
  reconnect(): void {
    for (const node of this.of('all')) node.reconnect();
  }

  close(): void {
    for (const name of this.#nodes.keys()) this.#remove(name);
  }

  #remove(name: string): void {
    const { connection } = this.#nodes.get(name)!;
    this.#nodes.delete(name);
    connection.disconnect();
    for (const places of this.#attached.values()) {
      places.get(connection)?.();
      places.delete(connection);
    }
  }
}
