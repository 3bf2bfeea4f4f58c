import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { type SimProcess } from '../world/sim-process.js';
import { Rng, type World } from '../world/world.js';
import { type SimRedis } from '../client/sim-redis.js';
import { type CommandEnd, type SimServer } from '../server/sim-server.js';
import { type Topology } from '../server/topology.js';

/** How long TCP waits before it sends again to a machine that does not answer. */
const RESEND_MS = 1_000;

/** What a server does with its end of a socket. */
export interface ServerEnd {
  readonly id: number;
  /** Whether something answers to a new connection: yes, a refusal, or nothing at all. */
  readonly reach: 'accepts' | 'refuses' | 'vanished';
  accept(socket: Socket): void;
  /** Runs what arrived by a socket, now or when the server gets to it. */
  receive(socket: Socket, run: () => void): void;
  /** The socket has ended at this end. */
  drop(socket: Socket): void;
}

/** What a client does with its end of a socket. */
interface ClientEnd {
  onConnect(): void;
  /** The server published something on a channel to which this socket listens. */
  onMessage(channel: string, message: string): void;
  onError(error: Error): void;
  onClose(): void;
}

interface Arrival {
  readonly at: number;
  readonly deliver: () => void;
}

/**
 * One TCP connection: in each direction first in, first out. Each end learns of the end of the other in its own time. Of the
 * events of a socket of Node, it emits `close` only: servers of a simulation send replies, not bytes.
 */
export class Socket extends EventEmitter<{ close: []; data: [Buffer] }> {
  /** Whether the client may write. */
  writable = true;
  isConnected = false;
  /** Whether the client end is closed, and has reported it. */
  isClosed = false;
  isServerClosed = false;
  /** What is sent in a direction is never heard of again. */
  deafUp = false;
  deafDown = false;
  #lastUp = 0;
  #lastDown = 0;
  /** What arrives at one moment is read at once: no promise job runs between. */
  #arriving: Arrival[] = [];
  /** Sockets run their callbacks in the context in which they were opened. */
  readonly #context = new AsyncResource('socket');
  readonly #world: World;
  /** The port that the client named. */
  port: number | undefined;

  constructor(
    readonly process: SimProcess,
    readonly server: ServerEnd,
    readonly client: ClientEnd,
    readonly link: Link,
    readonly rng: Rng,
  ) {
    super();
    this.#world = process.world;
  }

  get remotePort(): number | undefined {
    return this.isConnected && !this.isClosed ? this.port : undefined;
  }

  get remoteAddress(): string {
    return '10.0.0.1';
  }

  open(): void {
    this.#up('network', () => {
      const { reach } = this.server;
      if (reach === 'vanished' || this.isClosed) return;
      if (reach === 'refuses') return this.#down(() => this.fail(socketError('ECONNREFUSED', 'connect')));
      this.server.accept(this);
      this.#down(() => {
        if (!this.writable && !this.isConnected) return;
        this.isConnected = true;
        this.client.onConnect();
      });
    });
  }

  /** Sends to the server. */
  send(run: () => void): void {
    this.#up('network', () => {
      if (this.deafUp) return;
      if (this.isServerClosed) return this.#onUnknown();
      this.server.receive(this, () => this.isServerClosed || run());
    });
  }

  /** Sends to the client, after a further delay if a message takes longer to be written. */
  reply(run: () => void, extraMs = 0): void {
    if (!this.isServerClosed) this.#down(() => this.deafDown || run(), extraMs);
  }

  /** The client ends its side, as `stream.end()`: what was sent before still arrives. */
  end(): void {
    if (!this.writable) return;
    this.writable = false;
    this.#up('network', () => {
      if (this.deafUp || this.isServerClosed) return;
      this.server.receive(this, () => {
        this.closeServer();
        this.#down(() => this.deafDown || this.destroy());
      });
    });
  }

  /** The client closes at once. */
  destroy(): void {
    if (this.isClosed) return;
    const hadEnded = !this.writable;
    this.writable = false;
    this.isClosed = true;
    if (!hadEnded) this.#up('network', () => this.deafUp || this.server.receive(this, () => this.closeServer()));
    this.#world.soon(() => {
      this.emit('close');
      this.client.onClose();
    });
  }

  /** The client's end fails. */
  fail(error: Error): void {
    if (this.isClosed) return;
    this.client.onError(error);
    this.destroy();
  }

  /** The process has died: its system closes the socket. */
  abandon(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.writable = false;
    this.#up('network', () => this.deafUp || this.server.receive(this, () => this.closeServer()));
  }

  /** Something on the way breaks it; each end learns of it after its own delay, and what is under way is lost. */
  reset(clientMs: number, serverMs: number): void {
    this.deafUp = true;
    this.deafDown = true;
    this.#world.after(clientMs, this.process, 'io', () => this.#inOwnContext(() => this.fail(resetError())));
    this.#world.after(serverMs, null, 'network', () => this.closeServer());
  }

  /** The server's end is gone; with `tells`, its system reports it to the client. */
  closeServer(tells = false): void {
    if (this.isServerClosed) return;
    this.isServerClosed = true;
    this.server.drop(this);
    if (tells) this.#onUnknown();
  }

  /** The system of the server does not know the connection, and refuses it; while it is away, TCP sends again. */
  #onUnknown(): void {
    if (this.isClosed || this.deafDown) return;
    if (this.server.reach === 'vanished')
      return void this.#world.after(RESEND_MS, null, 'network', () => this.#onUnknown());
    this.#down(() => this.fail(resetError()));
  }

  #up(kind: 'network', run: () => void): void {
    const at = Math.max(this.link.arrival(this.#world.now, 'up', this.rng), this.#lastUp);
    this.#lastUp = at;
    this.#world.at(at, null, kind, run);
  }

  #down(run: () => void, extraMs = 0): void {
    const at = Math.max(this.link.arrival(this.#world.now, 'down', this.rng) + extraMs, this.#lastDown);
    const isNew = this.#arriving.at(-1)?.at !== at;
    this.#lastDown = at;
    this.#arriving.push({ at, deliver: run });
    if (isNew) this.#world.at(at, this.process, 'io', () => this.#inOwnContext(() => this.#read()));
  }

  #inOwnContext(run: () => void): void {
    this.#context.runInAsyncScope(run);
  }

  #read(): void {
    while (this.#arriving[0] && this.#arriving[0].at <= this.#world.now) {
      const { deliver } = this.#arriving.shift()!;
      if (!this.isClosed) deliver();
    }
  }
}

const resetError = (): Error => socketError('ECONNRESET', 'read');

export const socketError = (code: string, syscall: string): Error =>
  Object.assign(new Error(`${syscall} ${code}`), { code, syscall });

/** How a network behaves at its best; each time in milliseconds. */
export interface NetworkSettings {
  readonly delayMin: number;
  readonly delayMax: number;
  /** How often a packet is lost and sent again, and how long that takes at most. */
  readonly resend: number;
  readonly resendMax: number;
}

/** The way between a process and a server. TCP sends again what is lost: a cut only delays, until something gives up. */
class Link {
  /** Until when nothing gets through, to the server and from it. */
  cutUp = 0;
  cutDown = 0;
  /** Until when each packet takes up to `slowMs` more. */
  slowUntil = 0;
  slowMs = 0;
  /** Packets are no longer lost. */
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
    // Only behind Sentinel is it asked where a connection leads.
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
