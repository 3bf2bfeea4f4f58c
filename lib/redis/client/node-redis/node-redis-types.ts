// What the store uses of node-redis 5 and 6, in types of our own: those of the two versions differ.

/** The options of a socket: those of Node's `net.connect` and `tls.connect`, and some more. */
export interface SocketOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | undefined;
  readonly tls?: boolean | undefined;
  readonly connectTimeout?: number | undefined;
  readonly [option: string]: unknown;
}

/** The options of `createClient`, which are also those of each node of a cluster. */
export interface NodeRedisOptions {
  readonly url?: string | undefined;
  readonly socket?: SocketOptions | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: number | undefined;
  readonly name?: string | undefined;
  readonly RESP?: number | undefined;
  readonly keyPrefix?: string | Buffer | undefined;
  readonly [option: string]: unknown;
}

/** A client of `createClient`. */
export interface NodeRedis extends NodeJS.EventEmitter {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: NodeRedisOptions | undefined;
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(overrides: NodeRedisOptions): NodeRedis;
  sendCommand(args: readonly string[], options: CommandOptions): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
}

interface CommandOptions {
  readonly typeMapping: object;
  readonly timeout: undefined;
  readonly asap: false;
  /** Takes a command back that waits in the queue of the client; one that was written stays. */
  readonly abortSignal: AbortSignal;
}

export type CreateClient = (options: NodeRedisOptions) => NodeRedis;
