import { type ServerEnd, type Socket } from '../network/network.js';
import { type Rng, type World } from '../world/world.js';
import { ReplyError } from '../../support/lua/lua.js';
import { type Answer, type CommandEnd, Subscriptions } from './sim-server.js';
import { HOST } from './topology.js';

export const SET_NAME = 'main';
export const FIRST_SENTINEL = 26_000;

/** One sentinel: has a master, as far as it has heard, and announces when that changes. */
export class SimSentinel implements ServerEnd, CommandEnd {
  reach: ServerEnd['reach'] = 'accepts';
  readonly subscriptions: Subscriptions;
  readonly sockets = new Set<Socket>();
  others: readonly SimSentinel[] = [];

  constructor(
    readonly id: number,
    readonly world: World,
    readonly rng: Rng,
    /** The port of the master that it names. */
    public master: number,
  ) {
    this.subscriptions = new Subscriptions(this);
  }

  get name(): string {
    return `sentinel ${this.id - FIRST_SENTINEL}`;
  }

  accept(socket: Socket): void {
    this.sockets.add(socket);
  }

  drop(socket: Socket): void {
    this.sockets.delete(socket);
    this.subscriptions.drop(socket);
  }

  receive(socket: Socket, run: () => void): void {
    if (this.reach === 'accepts' && !socket.isServerClosed) run();
  }

  execute(_socket: Socket, name: string, args: readonly unknown[], answer: Answer): void {
    try {
      answer(this.#run(_socket, name, args.map(String)));
    } catch (error) {
      answer(undefined, error as Error);
    }
  }

  /** The leader of a failover has promoted a replica. */
  onPromoted(port: number): void {
    const before = this.master;
    this.master = port;
    this.#publish('+promoted-slave', `slave ${HOST}:${port} ${HOST} ${port} @ ${SET_NAME} ${HOST} ${before}`);
  }

  onSwitched(before: number, port: number): void {
    this.master = port;
    this.#publish('+switch-master', `${SET_NAME} ${HOST} ${before} ${HOST} ${port}`);
  }

  stop(ms: number, isSilent: boolean): void {
    if (this.reach !== 'accepts') return;
    this.reach = isSilent ? 'vanished' : 'refuses';
    for (const socket of this.sockets) socket.closeServer(!isSilent);
    this.world.after(ms, null, 'server', () => {
      for (const socket of this.sockets) socket.closeServer();
      this.reach = 'accepts';
    });
  }

  /** A sentinel that is away says nothing, and hears of the change when it is back. */
  #publish(channel: string, text: string): void {
    this.world.log(() => `${this.name} says ${channel} ${text}`);
    if (this.reach === 'accepts') this.subscriptions.publish(channel, text);
  }

  #run(socket: Socket, name: string, args: readonly string[]): unknown {
    if (name === 'hello') return 'OK';
    if (name === 'ping') return 'PONG';
    if (name === 'subscribe') return this.subscriptions.add(socket, args);
    if (name !== 'sentinel') throw new ReplyError(`ERR unknown command '${name}'`);
    if (args[0]!.toLowerCase() === 'get-master-addr-by-name') return [HOST, String(this.master)];
    return this.others.map(({ id, reach }) => {
      const flags = reach === 'accepts' ? 'sentinel' : 'sentinel,disconnected';
      return ['ip', HOST, 'port', String(id), 'flags', flags];
    });
  }
}
