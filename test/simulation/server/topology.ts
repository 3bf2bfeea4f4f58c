import { type ServerEnd } from '../network/network.js';
import { type SimServer } from './sim-server.js';

/** The address of server 0; the others follow. All have one host. */
export const HOST = '10.0.0.1';
export const FIRST_PORT = 7_000;
export const portOf = (server: { readonly id: number }): number => FIRST_PORT + server.id;

/** How one master among others fails over. */
export interface FailoverPlan {
  readonly shard: number;
  /** `planned`: the old master stays up. `crash`: it dies first. `takeover`: it is not informed. */
  readonly how: 'planned' | 'crash' | 'takeover';
  /** How long the old master is away, or does not know. */
  readonly ms: number;
  /** Which replica is promoted, if not the one that is least behind. */
  readonly pick: number;
}

/** Servers that take over from each other. */
export interface Topology {
  /** The server that counts for a key: what another one does is lost. */
  authorityOf(storageKey: string): SimServer;
  /** Who answers at a port. */
  at(port: number): ServerEnd;
  /** How many timers a process may have that has nothing to do. */
  readonly idleTimers: number;
  /** What an application passes as `connection`. */
  readonly connection: object;
  failover(plan: FailoverPlan): void;
  /** Cuts the way from a server's master to it. */
  partition(server: number, ms: number): void;
  /** A sentinel is away. */
  stopSentinel?(sentinel: number, ms: number, isSilent: boolean): void;
  /** A slot moves to another master. */
  moveSlot?(storageKey: string, to: number, ms: number): void;
}

/** Learns what a failover loses. */
export interface FailoverWatch {
  /** `next` takes over the keys of `old`. */
  onPromotion(old: SimServer, next: SimServer): void;
  /** A key has moved to another master, whose replicas may not have it yet. */
  onMoved(key: string, to: SimServer): void;
  /** Until when the failover may still cause trouble. */
  trouble(until: number): void;
}
