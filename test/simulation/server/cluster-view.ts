import { type Member } from './member.js';

/** The cluster as its nodes have agreed, or as one of them still believes it to be. */
export interface View {
  readonly version: number;
  /** The master of each shard, by the number of its server. */
  readonly masters: readonly number[];
  /** The slots that have moved away from their first shard. */
  readonly moved: ReadonlyMap<number, number>;
}

/** A slot that moves from one master to another, key by key. */
export interface Migration<Node extends Member = Member> {
  readonly source: Node;
  readonly target: Node;
}

/** A range of slots, with its nodes, the master first. */
export type Range = readonly (number | readonly [host: string, port: number])[];

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
