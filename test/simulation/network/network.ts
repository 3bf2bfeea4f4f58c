import { type SimRedis } from '../client/sim-redis.js';
import { type CommandEnd, type SimServer } from '../server/sim-server.js';
import { type Topology } from '../server/topology.js';
import { type SimProcess } from '../world/sim-process.js';
import { Rng } from '../world/rng.js';
import { type World } from '../world/world.js';
import { Link, type NetworkSettings } from './link.js';
import { type ClientEnd, type ServerEnd, Socket } from './socket.js';

/** The clients and open sockets of one process. */
export interface Endpoints {
  readonly clients: Set<SimRedis>;
  readonly sockets: Set<Socket>;
}

/** All connections between processes and servers. The port of a server is its number. */
export class Network {
  readonly servers: SimServer[] = [];
  /** How the servers belong together; null: they do not. */
  topology: Topology | null = null;
  readonly #links = new Map<string, Link>();
  readonly #endpoints = new Map<SimProcess, Endpoints>();
  #sockets = 0;

  constructor(
    readonly world: World,
    readonly settings: NetworkSettings,
    private readonly seed: number,
  ) {}

  /** The way from a place (which outlives its process) to a server. */
  link(slot: number, server: number): Link {
    const id = `${slot} ${server}`;
    const known = this.#links.get(id) ?? new Link(this.settings);
    this.#links.set(id, known);
    return known;
  }

  calmDown(): void {
    for (const link of this.#links.values()) link.isCalm = true;
  }

  of(process: SimProcess): Endpoints {
    const known = this.#endpoints.get(process) ?? { clients: new Set(), sockets: new Set() };
    this.#endpoints.set(process, known);
    return known;
  }

  add(client: SimRedis, process: SimProcess): void {
    this.of(process).clients.add(client);
  }

  socketTo(process: SimProcess, port: number, client: ClientEnd): Socket {
    const { sockets } = this.of(process);
    const server: ServerEnd = this.topology?.at(port) ?? this.servers[port]!;
    const rng = new Rng(this.seed, 'socket', process.name, (this.#sockets += 1));
    const onClose = (): void => {
      sockets.delete(socket);
      client.onClose();
    };
    const end = { ...client, onClose };
    const socket: Socket = new Socket(process, server, end, this.link(process.slot, server.id), rng);
    // Only behind Sentinel does anybody ask where a connection leads.
    if (this.topology) socket.port = port;
    sockets.add(socket);
    return socket;
  }

  /** Has the server at the other end of a socket carry out a command. */
  execute(
    socket: Socket,
    name: string,
    args: readonly unknown[],
    answer: (reply: unknown, error?: Error) => void,
  ): void {
    (socket.server as ServerEnd & CommandEnd).execute(socket, name, args, answer);
  }

  /** A process has died. */
  abandon(process: SimProcess): void {
    for (const socket of this.of(process).sockets) socket.abandon();
    this.#endpoints.delete(process);
  }
}
