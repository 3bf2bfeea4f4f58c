import { errorMonitor } from 'node:events';
import type { Redis, RedisOptions } from 'ioredis';
import { type ClientParts } from '../client-library.js';
import { type ClientEvents, type ClientStatus, type Operands, type SingleClient } from '../redis-client.js';
import { type Ioredis, endsForGood } from './ioredis-options.js';
import { closeConnection, supervise } from './lifecycle.js';

/** The clients of one store. */
export interface ClientOwner {
  readonly parts: ClientParts;
  /** Returns the client of a connection of ioredis: always the same one. */
  of(connection: Redis): NodeClient;
  /** Returns the client of a connection that we have just opened. */
  ofOwn(connection: Redis): SingleClient;
  /** Opens a duplicate. */
  duplicateOf(connection: Redis, changes: RedisOptions): SingleClient;
}

/** A connection that may lead to a node of a cluster. */
export interface NodeClient extends SingleClient {
  /** Opens one more connection to the node; it ends when the node is gone. */
  duplicateNode(at?: { host: string; port: number }): SingleClient;
}

/** The names of ioredis. `errorMonitor` also receives what no listener handles. */
const EVENTS = {
  connecting: 'connecting',
  connected: 'connect',
  ready: 'ready',
  closed: 'close',
  ended: 'end',
  error: errorMonitor,
  message: 'message',
  nodeError: 'node error',
} satisfies Record<keyof ClientEvents, string | symbol>;

const STATUSES: Readonly<Record<string, ClientStatus>> = {
  wait: 'idle',
  connecting: 'connecting',
  connect: 'connected',
  ready: 'ready',
  end: 'ended',
};

/** What the two kinds of clients of ioredis have in common. */
export abstract class IoredisBase<Client extends Ioredis> {
  constructor(
    protected readonly client: Client,
    protected readonly owner: ClientOwner,
  ) {}

  /** Of the present connections; undefined while there is none. */
  protected abstract readonly sockets: readonly (Redis['stream'] | undefined)[];

  get status(): ClientStatus {
    return STATUSES[this.client.status] ?? 'closed';
  }

  get endsForGood(): boolean {
    return endsForGood(this.client);
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.#listen('on', event, (...args) => listener(...(argumentsOf(event, args) as ClientEvents[E])));
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.#listen('once', event, () => listener());
  }

  connect(): Promise<void> {
    return this.client.connect();
  }

  reconnect(): void {
    this.client.disconnect(true);
  }

  close(): Promise<void> {
    return closeConnection(this.client, this.owner.parts.clock);
  }

  supervise(): () => void {
    return supervise(this.client, this.owner.parts.clock);
  }

  inOneWrite(send: () => void): void {
    // What stands in for ioredis in a test may have no real socket.
    const sockets: readonly (Partial<Redis['stream']> | undefined)[] = this.sockets;
    for (const socket of sockets) socket?.cork?.();
    try {
      send();
    } finally {
      for (const socket of sockets) socket?.uncork?.();
    }
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    const [numberOfKeys, ...rest] = operands as [number, ...Operands];
    return this.client.evalsha(sha1, numberOfKeys, ...rest);
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    const [numberOfKeys, ...rest] = operands as [number, ...Operands];
    return this.client.eval(text, numberOfKeys, ...rest);
  }

  #listen(method: 'on' | 'once', event: keyof ClientEvents, listener: (...args: unknown[]) => void): () => void {
    const emitter: NodeJS.EventEmitter = this.client;
    emitter[method](EVENTS[event], listener);
    return () => void emitter.off(EVENTS[event], listener);
  }
}

/** ioredis passes the error of a node before its address. */
const argumentsOf = (event: keyof ClientEvents, args: readonly unknown[]): readonly unknown[] =>
  event === 'nodeError' ? args.slice(1) : args;
