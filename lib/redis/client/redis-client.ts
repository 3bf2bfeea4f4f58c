import { type ServerAddress } from './server-address.js';

/**
 * `idle`: it connects when it is told to. `closed`: the connection was lost, and is opened again after a pause. `ended`:
 * only `connect` opens it again.
 */
export type ClientStatus = 'idle' | 'connecting' | 'connected' | 'ready' | 'closed' | 'ended';

/** The events of a client, with what their listeners receive. */
export interface ClientEvents {
  connecting: [];
  connected: [];
  ready: [];
  closed: [];
  ended: [];
  error: [error: Error];
  message: [channel: string, message: string];
  /** A node of a cluster, named by its address, could not be reached. */
  nodeError: [address: string];
}

/** The keys and arguments of a script, behind the number of its keys. */
export type Operands = readonly (string | number)[];

/** Whether a connection leads to the server that was just named the master. */
export type LeadsToMaster = (client: SingleClient) => boolean;

/** Learns that another server is the master now, until it is closed. */
export interface MasterWatch {
  close(): Promise<void>;
}

/**
 * What a single connection and a cluster have in common. Each client has one object, so that clients can be compared.
 *
 * A command that the server refuses rejects with an error called `ReplyError`, whose text is that of the server from the code on
 * (`NOSCRIPT …`, `MOVED 7 host:port`); no client follows a redirection that comes to a single connection. A command of our own
 * connections that cannot be sent now, or whose connection is lost, rejects at once with an error for which `isLost`
 * (connection/redis-errors.ts) is true, and is never sent later or twice. test/clients holds every library to this.
 */
interface BaseClient {
  readonly status: ClientStatus;
  /** Whether a command is sent at once; otherwise the client might queue it, and send it at any time. */
  readonly isWritable: boolean;
  /** Whether the connection stays closed once it has ended: another one replaces it. */
  readonly endsForGood: boolean;

  /** Returns a function that removes the listener. */
  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void;
  once(event: keyof ClientEvents, listener: () => void): () => void;

  /** Rejects when the first try fails; the client goes on trying. Each try has a deadline in every state. */
  connect(): Promise<void>;
  /** Cuts the connection, and opens it again. */
  reconnect(): void;
  /** Closes a connection of ours; resolves when its sockets have ended, or after a short limit. */
  close(): Promise<void>;

  /**
   * Opens one more connection of our own to subscribe by; null while a cluster knows no node. It takes other commands before it
   * subscribes. When it is opened again after a loss, it is subscribed to nothing.
   */
  openSubscriber(): SingleClient | null;
  /** Behind Sentinel: calls back when another server is the master. Null where nothing reports that. */
  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null;

  /** The commands that `send` sends leave in one write to each server, where the library would make a write of each. */
  inOneWrite(send: () => void): void;
  /** EVALSHA */
  evaluateSha(sha1: string, operands: Operands): Promise<unknown>;
  /** EVAL */
  evaluate(text: string, operands: Operands): Promise<unknown>;
}

/** One connection to one server. */
export interface SingleClient extends BaseClient {
  readonly isCluster: false;
  /** Where commands go, for people: never a password. */
  readonly address: string;
  /** Where the present connection leads; null while there is none. */
  readonly peer: ServerAddress | null;

  /** Opens one more connection to the same place, with the same database. It connects by itself. */
  duplicate(): SingleClient;
  /** Ends the connection at once. */
  disconnect(): void;
  /** Lets the next command through at a node of a cluster to which its slot is moving. */
  asking(): void;
  /** INFO, of the usual sections or of that one. */
  info(section?: 'server'): Promise<string>;
  /** Any command without keys that changes nothing, for what only people ask about. */
  call(words: readonly [string, ...string[]]): Promise<unknown>;
  /** TIME, in microseconds. Rejects for an answer that is no time. */
  time(): Promise<number>;
  /** SCAN. Rejects for an answer without a cursor and keys. */
  scan(cursor: string, pattern: string, count: number): Promise<readonly [cursor: string, keys: readonly string[]]>;
  /** WAIT: how many replicas have all writes of this connection. Rejects for an answer that is no number. */
  wait(replicas: number, timeoutMs: number): Promise<number>;
  subscribe(channel: string): Promise<void>;
}

/** The connections to the nodes of a cluster. */
export interface ClusterClient extends BaseClient {
  readonly isCluster: true;

  nodes(role: 'master' | 'all'): readonly SingleClient[];
  /** The connection to the master that serves a storage key, as far as it is known. */
  masterOf(storageKey: string): SingleClient | undefined;
  /** The address of that master, which the client need not be connected to. */
  masterAddressOf(storageKey: string): ServerAddress | undefined;
  /** Translates the address that servers announce to the one by which this process reaches the server. */
  reachedBy(address: ServerAddress): ServerAddress;
  /** Opens a connection of our own to a node, known or not; it ends when the node is gone. Null while no node is known. */
  openNode(address: ServerAddress): SingleClient | null;
  /** Attaches something to each present and future connection to a node; the returned function detaches it from all. */
  attachToNodes(attach: (node: SingleClient) => () => void): () => void;
  /** Asks the cluster which node serves which slot, and calls back when that is over. */
  refreshSlots(onDone: () => void): void;
}

export type RedisClient = SingleClient | ClusterClient;
