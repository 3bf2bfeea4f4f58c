/** A Redis server that this process started. */
export interface StartedRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** The arguments as given: with `port`, what a restart needs. */
  readonly args: string[];
  /** Ends the server, also a stopped one (SIGSTOP), and removes its folder; does nothing the second time. */
  stop(): Promise<void>;
  /** Sends a signal; SIGKILL (the default) and SIGTERM wait until the server has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>;
}

export interface StartRedisOptions {
  /** Arguments of `redis-server`; they override those of the tool. The first may be a configuration file. */
  args?: string[];
  /** Exactly this port, as when a server is started again; else a free one. */
  port?: number;
}

/** Finds `redis-server` or `valkey-server`, installing one where the system allows it; gives its path. */
export function ensureRedisServer(): string;

/** Starts a server on a loopback port, without persistence; resolves when it answers. */
export function startRedisServer(options?: StartRedisOptions): Promise<StartedRedis>;

/** Different loopback ports that nobody listens on now; somebody may before they are used. */
export function freePorts(count: number): Promise<number[]>;

/** A temporary folder, removed by `remove` or when this process ends, however it ends. */
export function makeFolder(): { readonly path: string; remove(): void };

/** The Redis of REDIS_URL (`stop` leaves it alone), or a server of its own. */
export function provideRedis(): Promise<{ readonly url: string; stop(): Promise<void> }>;
