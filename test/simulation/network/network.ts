import { type SimRedis } from '../client/sim-redis.js';
import { type CommandEnd, type SimServer } from '../server/sim-server.js';
import { type Topology } from '../server/topology.js';
import { Rng } from '../world/rng.js';
import { type SimProcess } from '../world/sim-process.js';
import { type World } from '../world/world.js';
import { type ClientEnd, type ServerEnd, Socket } from './socket.js';

/** How a network behaves at its best; each time in milliseconds. */
export interface NetworkSettings {
  readonly delayMin: number;
  readonly delayMax: number;
  /** How often a packet is lost and sent again, and how long that takes at most. */
  readonly resend: number;
  readonly resendMax: number;
}

/** The way between a process and a server. TCP sends again what is lost: a cut only delays, until something gives up. */
export class Link {
  /** Until when nothing gets through, to the server and from it. */
  cutUp = 0;
  cutDown = 0;
  /** Until when each packet takes up to `slowMs` more. */
  slowUntil = 0;
  slowMs = 0;
  /** Nothing is lost any more. */
  isCalm = false;

  constructor(private readonly settings: NetworkSettings) {}

  /** When a packet arrives that is sent now in this direction. */
  arrival(now: number, direction: 'up' | 'down', rng: Rng): number {
    const cutUntil = direction === 'up' ? this.cutUp : this.cutDown;
    return Math.max(now, cutUntil) + this.#delay(now, rng);
  }

  #delay(now: number, rng: Rng): number {
    const { delayMin, delayMax, resend, resendMax } = this.settings;
    const usual = rng.float(delayMin, delayMax);
    const resent = !this.isCalm && rng.chance(resend) ? rng.skewed(0, resendMax) : 0;
    return usual + resent + (this.slowUntil > now ? rng.float(0, this.slowMs) : 0);
  }
}

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
