import { type ServerAddress } from './server-address.js';

/**
 * `idle`: it connects when `connect` is called. `closed`: the connection was lost, and is opened again after a pause. `ended`:
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
}

/** The keys and arguments of a script, after the number of its keys. */
export type Operands = readonly (string | number)[];

/** Whether a connection leads to the server that was just announced as the master. */
export type LeadsToMaster = (client: SingleClient) => boolean;

/** Watches for a new master, until it is closed. */
export interface MasterWatch {
  close(): Promise<void>;
}

/**
 * What a single connection and a cluster have in common. Each client has one object, so that clients can be compared.
 *
 * A command that the server refuses rejects with an error called `ReplyError`, whose text is that of the server from the code on
 * (`NOSCRIPT …`, `MOVED 7 host:port`); on a single connection, no client follows a redirection. A command on one of our
 * connections that cannot be sent now, or whose connection is lost, rejects at once with an error for which `isLost`
 * (connection/redis-errors.ts) is true, and is never sent later or twice. test/clients holds every library to this.
 */
interface BaseClient {
  readonly status: ClientStatus;
  /** Why the last attempt to connect failed; undefined once one has not. */
  readonly lastError: Error | undefined;
  /** Whether a command is sent at once; otherwise the client might queue it, and send it at any time. */
  readonly isWritable: boolean;
  /** Whether the connection stays closed after its end: another one replaces it. */
  readonly endsForGood: boolean;

  /** Returns a function that removes the listener. */
  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void;
  once(event: keyof ClientEvents, listener: () => void): () => void;

  /** Rejects when the first attempt fails; the client continues trying. Each attempt has a deadline in every state. */
  connect(): Promise<void>;
  /** Cuts the connection, and opens it again. */
  reconnect(): void;
  /** Closes one of our connections; resolves when its sockets have ended, or after a short limit. */
  close(): Promise<void>;

  /**
   * Opens another connection to subscribe with; null while a cluster has not discovered a node. It accepts other commands before it
   * subscribes. After a reconnect, it has no subscriptions.
   */
  openSubscriber(): SingleClient | null;
  /** Behind Sentinel: calls back when another server is the master. Null where nothing reports that. */
  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null;

  /** Sends the commands of `send` in one write to each server, where the library would make a write of each. */
  inOneWrite(send: () => void): void;
  /** EVALSHA */
  evaluateSha(sha1: string, operands: Operands): Promise<unknown>;
  /** EVAL */
  evaluate(text: string, operands: Operands): Promise<unknown>;
}

/** One connection to one server. */
export interface SingleClient extends BaseClient {
  readonly isCluster: false;
  /** Where commands are sent, for log texts: never contains a password. */
  readonly address: string;
  /** Where the present connection leads; null while there is none. */
  readonly peer: ServerAddress | null;

  /** Opens another connection to the same place, with the same database. It connects by itself. */
  duplicate(): SingleClient;
  /** Ends the connection at once. */
  disconnect(): void;
  /** Admits the next command at a node of a cluster to which its slot is moving. */
  asking(): void;
  /** INFO, of the default sections or of that one. */
  info(section?: 'server'): Promise<string>;
  /** Any command without keys that changes nothing, for queries of users. */
  call(words: readonly [string, ...string[]]): Promise<unknown>;
  /** TIME, in microseconds. Rejects if the answer is not a time. */
  time(): Promise<number>;
  /** SCAN. Rejects for an answer without a cursor and keys. */
  scan(cursor: string, pattern: string, count: number): Promise<readonly [cursor: string, keys: readonly string[]]>;
  /** WAIT: how many replicas have all writes of this connection. Rejects if the answer is not a number. */
  wait(replicas: number, timeoutMs: number): Promise<number>;
  subscribe(channel: string): Promise<void>;
}

/** The connections to the nodes of a cluster. */
export interface ClusterClient extends BaseClient {
  readonly isCluster: true;

  nodes(role: 'master' | 'all'): readonly SingleClient[];
  /** The connection to the master that serves a storage key, if it is known. */
  masterOf(storageKey: string): SingleClient | undefined;
  /** The address of that master, which the client need not be connected to. */
  masterAddressOf(storageKey: string): ServerAddress | undefined;
  /** Translates the address that servers announce to the one by which this process reaches the server. */
  reachedBy(address: ServerAddress): ServerAddress;
  /** Opens our connection to a node, known or not; it ends when the node is gone. Null while no node has been discovered. */
  openNode(address: ServerAddress): SingleClient | null;
  /** Attaches something to each present and future connection to a node; the returned function detaches it from all. */
  attachToNodes(attach: (node: SingleClient) => () => void): () => void;
  /** Asks the cluster which node serves which slot, and calls back when that is over. */
  refreshSlots(onDone: () => void): void;
}

export type RedisClient = SingleClient | ClusterClient;
