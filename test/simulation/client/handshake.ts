import { type Network } from '../network/network.js';
import { type Socket } from '../network/socket.js';
import { type SimProcess } from '../world/sim-process.js';
import { type Options } from './options.js';

/** The client whose connection it is. */
interface Client {
  /** Whether it still waits for this handshake. */
  isGoingOn(): boolean;
  hasRightRole(role: string): boolean;
  onReady(): void;
  onWrongRole(): void;
  onFatal(error: Error): void;
}

/** The first commands of a connection; they go past the queues. */
export class Handshake {
  constructor(
    private readonly network: Network,
    private readonly process: SimProcess,
    private readonly socket: Socket,
    private readonly options: Options,
    private readonly client: Client,
  ) {}

  start(): void {
    const { enableReadyCheck } = this.options;
    this.#send('hello', [3], () => (enableReadyCheck ? this.#checkReady() : this.client.onReady()));
  }

  #send(name: string, args: readonly unknown[], onReply: (reply: unknown) => void): void {
    const { network, socket, client } = this;
    socket.send(() => {
      network.execute(socket, name, args, (reply, error) => {
        socket.reply(() => {
          if (!client.isGoingOn() || !socket.writable) return;
          if (error) client.onFatal(error);
          else onReply(reply);
        });
      });
    });
  }

  #checkReady(): void {
    this.#send('info', [], (info) => {
      if (!/^loading:1/m.test(String(info))) return this.#checkRole(String(info));
      const again = (): void => {
        if (this.client.isGoingOn()) this.#checkReady();
      };
      this.process.clock.setTimer(again, Math.min(1_000, this.options.maxLoadingRetryTime));
    });
  }

  #checkRole(info: string): void {
    const role = /^role:(\w+)/m.exec(info)?.[1] ?? '';
    if (this.client.hasRightRole(role)) this.client.onReady();
    else this.client.onWrongRole();
  }
}
