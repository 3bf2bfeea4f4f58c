import { type Member } from './member.js';
import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type ServerEnd } from '../network/network.js';
import { type Rng, type World } from '../world/world.js';
import { type ClusterNode } from './cluster-node.js';
import { type SimServer } from './sim-server.js';
import { type FailoverPlan, type FailoverWatch, FIRST_PORT, HOST, portOf, type Topology } from './topology.js';

/** The cluster as its nodes have agreed, or as one of them still believes it to be. */
export interface View {
  readonly version: number;
  /** The master of each shard, by the number of its server. */
  readonly masters: readonly number[];
  /** The slots that have moved away from their first shard. */
  readonly moved: ReadonlyMap<number, number>;
}

/** A slot that moves from one master to another, key by key. */
interface Migration<Node extends Member = Member> {
  readonly source: Node;
  readonly target: Node;
}

/** A range of slots, with its nodes, the master first. */
type Range = readonly (number | readonly [host: string, port: number])[];

/** What a node needs of its cluster. */
export interface Cluster {
  readonly migrations: ReadonlyMap<number, Migration>;
  /** The server that serves a slot. */
  ownerOf(slot: number, view: View): number;
  /** The answer to CLUSTER SLOTS. */
  rangesOf(view: View): readonly Range[];
  broadcast(from: Member, channel: string, message: string): void;
  onUp(node: Member): void;
}

const SLOTS = 16_384;

interface Parts {
  readonly world: World;
  readonly rng: Rng;
  readonly watch: FailoverWatch;
  /** How many shards there are, and how many replicas each has. */
  readonly masters: number;
  readonly replicas: number;
}

/** What the nodes of a cluster agree on, and how they learn of it. */
export class ClusterBus implements Topology, Cluster {
  /** Each client asks now and then who serves which slot, on a separate connection. */
  readonly idleTimers = 8;
  readonly migrations = new Map<number, Migration<ClusterNode>>();
  nodes: readonly ClusterNode[] = [];
  #truth: View;
  #isFailingOver = false;
  /** When the last message between two nodes arrives. */
  readonly #lastAt = new Map<string, number>();

  constructor(private readonly parts: Parts) {
    const masters = Array.from({ length: parts.masters }, (_, shard) => shard * (1 + parts.replicas));
    this.#truth = { version: 1, masters, moved: new Map() };
  }

  get view(): View {
    return this.#truth;
  }

  get connection(): object {
    return { cluster: this.nodes.slice(0, 3).map(({ server }) => ({ host: HOST, port: portOf(server) })) };
  }

  at(port: number): ServerEnd {
    return this.nodes[port - FIRST_PORT]!.server;
  }

  authorityOf(storageKey: string): SimServer {
    const migration = this.migrations.get(slotOf(storageKey));
    // What the source does not have, it leaves to the target.
    if (migration && !migration.source.server.hash(storageKey)) return migration.target.server;
    return this.nodes[this.ownerOf(slotOf(storageKey), this.#truth)]!.server;
  }

  /** The server that serves a slot. */
  ownerOf(slot: number, { masters, moved }: View): number {
    return masters[moved.get(slot) ?? this.#shardOf(slot)]!;
  }

  /** All replicas follow their masters. */
  join(): void {
    for (const node of this.nodes) this.#tell(node);
  }

  /** The answer to CLUSTER SLOTS. */
  rangesOf(view: View): readonly Range[] {
    const { masters } = this.parts;
    const moved = [...view.moved.keys()].sort((a, b) => a - b);
    const starts = Array.from({ length: masters }, (_, shard) => Math.ceil((shard * SLOTS) / masters));
    const edges = [...new Set([...starts, ...moved, ...moved.map((slot) => slot + 1), SLOTS])].sort((a, b) => a - b);
    return edges.slice(0, -1).map((first, i) => {
      const owner = this.ownerOf(first, view);
      const shard = Math.floor(owner / this.#size);
      const others = this.nodes.filter(({ server: { id } }) => id !== owner && Math.floor(id / this.#size) === shard);
      const ids = [owner, ...others.map(({ server }) => server.id)];
      return [first, edges[i + 1]! - 1, ...ids.map((id) => [HOST, portOf({ id })] as const)];
    });
  }

  broadcast(from: Member, channel: string, message: string): void {
    const { world, rng } = this.parts;
    for (const node of this.nodes) {
      if (node === from) continue;
      const way = `${from.server.id} ${node.server.id}`;
      const at = Math.max(world.now + rng.float(0.1, 2), this.#lastAt.get(way) ?? 0);
      this.#lastAt.set(way, at);
      world.at(at, null, 'server', () => {
        if (node.isUp) node.server.subscriptions.publish(channel, message);
      });
    }
  }

  partition(server: number, ms: number): void {
    const node = this.nodes[server]!;
    const link = node.master?.links.get(node);
    if (link) link.cutUntil = Math.max(link.cutUntil, this.parts.world.now + ms);
  }

  /** A node that is back hears the news. */
  onUp({ server }: Member): void {
    const { world, rng } = this.parts;
    world.after(rng.float(100, 1_000), null, 'server', () => this.#tell(this.nodes[server.id]!));
  }

  moveSlot(storageKey: string, to: number, ms: number): void {
    const { world, rng } = this.parts;
    const slot = slotOf(storageKey);
    const source = this.nodes[this.ownerOf(slot, this.#truth)]!;
    const target = this.nodes[this.#truth.masters[to]!]!;
    if (this.#isFailingOver || source === target || this.migrations.has(slot) || !source.isUp || !target.isUp) return;
    world.log(() => `slot ${slot} moves from ${source.server.name} to ${target.server.name}`);
    this.migrations.set(slot, { source, target });
    for (const key of source.server.keys) {
      if (slotOf(key) === slot) world.after(rng.float(0, ms), null, 'server', () => this.#moveKey(slot, key));
    }
    world.after(ms, null, 'server', () => this.#endMigration(slot));
  }

  /** As MIGRATE does it: the key is on the target, and then no longer on the source. */
  #moveKey(slot: number, key: string): void {
    const { source, target } = this.migrations.get(slot) ?? {};
    const value = source?.server.hash(key);
    if (!source?.isUp || !target?.isUp || !value) return;
    target.write([{ key, value }]);
    source.write([{ key, value: undefined }]);
    this.parts.watch.onMoved(key, target.server);
  }

  failover({ shard, how, ms }: FailoverPlan): void {
    const { world, rng, watch } = this.parts;
    const old = this.nodes[this.#truth.masters[shard]!]!;
    const isMoving = [...this.migrations.values()].some(({ source, target }) => source === old || target === old);
    if (this.#isFailingOver || isMoving || !old.isUp) return;
    if (how === 'planned') return this.#failOverGently(old, shard);
    this.#isFailingOver = true;
    const isCrash = how === 'crash';
    if (isCrash) old.server.crash(ms, false, rng.chance(0.3), 0);
    watch.trouble(world.now + ms + 4_000);
    // The nodes have to notice it first.
    world.after(isCrash ? rng.float(500, 2_500) : 0, null, 'server', () => {
      this.#isFailingOver = false;
      const next = this.nodes.find(({ master, isUp }) => master === old && isUp);
      if (!next || (isCrash && old.isUp)) return;
      this.#promote(old, next, shard);
      if (!isCrash) world.after(Math.min(ms, 3_000), null, 'server', () => this.#tell(old));
    });
  }

  /** The master lets its replica catch up first: nothing is lost. */
  #failOverGently(old: ClusterNode, shard: number): void {
    const next = this.nodes.find((node) => old.links.get(node)?.isOnline);
    if (!next?.isUp) return;
    next.load(old.entries, old.server.data);
    this.#promote(old, next, shard);
    this.#tell(old);
  }

  #promote(old: ClusterNode, next: ClusterNode, shard: number): void {
    const { world, rng, watch } = this.parts;
    world.log(() => `${next.server.name} takes over from ${old.server.name}`);
    next.promote();
    this.#change({ masters: this.#truth.masters.with(shard, next.server.id) }, [next]);
    watch.onPromotion(old.server, next.server);
    const others = this.nodes.filter((node) => node !== old && node !== next);
    for (const node of others) world.after(rng.float(0, 500), null, 'server', () => this.#tell(node));
  }

  #endMigration(slot: number): void {
    const { world, rng } = this.parts;
    const { source, target } = this.migrations.get(slot)!;
    // Nodes that are away are waited for.
    if (!source.isUp || !target.isUp) return void world.after(500, null, 'server', () => this.#endMigration(slot));
    for (const key of source.server.keys) if (slotOf(key) === slot) this.#moveKey(slot, key);
    this.migrations.delete(slot);
    const moved = new Map([...this.#truth.moved, [slot, Math.floor(target.server.id / this.#size)]]);
    this.#change({ moved }, [target, source]);
    for (const node of this.nodes) world.after(rng.float(0, 500), null, 'server', () => this.#tell(node));
  }

  #change(change: Partial<View>, knowing: readonly ClusterNode[]): void {
    this.#truth = { ...this.#truth, ...change, version: this.#truth.version + 1 };
    for (const node of knowing) node.view = this.#truth;
  }

  /** A node learns the current state; a demoted master follows the new one. */
  #tell(node: ClusterNode): void {
    if (!node.isUp) return;
    node.view = this.#truth;
    const master = this.nodes[this.#truth.masters[Math.floor(node.server.id / this.#size)]!]!;
    if (master !== node && node.master !== master) node.follow(master);
  }

  #shardOf(slot: number): number {
    return Math.floor((slot * this.parts.masters) / SLOTS);
  }

  /** The servers of one shard have numbers in a row. */
  get #size(): number {
    return 1 + this.parts.replicas;
  }
}
