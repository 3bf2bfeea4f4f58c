import { type StartedRedis } from './redis.mjs';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Servers that belong together. Whoever starts one of them again, by its `port` and `args`, ends that one. */
interface Topology {
  /** Ends all servers, also those that were killed or stopped (SIGSTOP), and removes their files. */
  stop(): Promise<void>;
}

export interface StartedSentinels extends Topology {
  readonly connection: { readonly sentinels: Address[]; readonly name: string };
  /** The master of the beginning. */
  readonly master: StartedRedis;
  readonly replicas: StartedRedis[];
  readonly sentinels: StartedRedis[];
}

export interface StartedCluster extends Topology {
  readonly connection: { readonly cluster: Address[] };
  /** The masters of the beginning, in the order of their slots. */
  readonly masters: StartedRedis[];
  /** The replica `i` follows the master `i % 3`. */
  readonly replicas: StartedRedis[];
}

/** As ioredis takes it; certificates and key are PEM texts. */
export interface SecuredConnection extends Address {
  readonly username: string;
  readonly password: string;
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string };
}

export interface StartedSecured extends Topology {
  /** As the user `locks`, who has the rights of docs/security.md. */
  readonly connection: SecuredConnection;
  /** As a user who may do everything. */
  readonly admin: SecuredConnection;
  /** Its `url` and `port` are those without TLS, closed once it has started. */
  readonly server: StartedRedis;
}

export interface StartedQuorum extends Topology {
  /** URLs. */
  readonly connection: string[];
  readonly servers: StartedRedis[];
}

/**
 * Starts a master, two replicas and three sentinels (quorum 2, fail-over time-out 2 s); resolves when all know each other.
 * `downAfterMs` (700 by default): how long a server may be silent before it counts as down. `host`: the address, or
 * the name, by which all are told.
 */
export function startSentinels(options?: { downAfterMs?: number; host?: string }): Promise<StartedSentinels>;

/**
 * Starts a cluster of three masters with `replicas` (1) each; resolves when every node serves and tells of all others.
 * `nodeTimeoutMs` (1,500 by default): how long a node may be silent before it counts as down. `announceBus` gives the port by
 * which the others reach the bus of a node, of the one on which it listens (the same by default).
 */
export function startCluster(options?: {
  replicas?: number;
  nodeTimeoutMs?: number;
  announceBus?: (port: number) => number | Promise<number>;
}): Promise<StartedCluster>;

/** Starts a server that is reached by TLS with a client certificate only, and whose `default` user is off. */
export function startSecured(): Promise<StartedSecured>;

/** Starts servers that know nothing of each other. */
export function startQuorum(size: number): Promise<StartedQuorum>;

/** The rights that docs/security.md gives the user of the locks, as `ACL SETUSER` takes them. */
export function documentedRights(): string[];
