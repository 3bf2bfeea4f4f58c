import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A wire to Redis that can be cut: its connections break, and new ones break at once. */
export class RedisWire {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #isCut = false;

  private constructor(private readonly redis: URL) {
    this.#server = createServer((socket) => this.#join(socket));
  }

  /** Opens a wire to the Redis of this URL. */
  static async to(url: string): Promise<RedisWire> {
    const wire = new RedisWire(new URL(url));
    wire.#server.listen(0, '127.0.0.1');
    await once(wire.#server, 'listening');
    return wire;
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  /** The URL that leads through the wire. */
  get url(): string {
    const url = new URL(this.redis);
    url.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return url.href;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #join(socket: Socket): void {
    if (this.#isCut) return void socket.destroy();
    const redis = connect(Number(this.redis.port || 6379), this.redis.hostname.replace(/^\[|\]$/g, ''));
    for (const [from, to] of [
      [socket, redis],
      [redis, socket],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.once('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
