import { type Clock, setDeadline } from '../../../core/clock.js';
import { GREETING_MS } from '../../timing.js';
import { type NodeRedis } from './node-redis-types.js';
import { errorOfConnection, newLoss, sendBy } from './sending.js';

/** Makes a client that is not connected yet and never reconnects; `cut` destroys its socket, whatever that is doing. */
export type MakeClient = (cut: AbortSignal) => NodeRedis;

interface TryListener {
  onConnected(): void;
  onReady(): void;
  /** The server must be a master; without this, it is not asked. */
  readonly onReplica?: (() => void) | undefined;
  /** It is over, and nothing comes from it any more. */
  onOver(error: Error | undefined): void;
}

/**
 * One socket of a connection of ours, from its first packet to its end. node-redis would reconnect by itself, and cannot be cut
 * and opened again: while a client waits for a host, or pauses between two tries, it begins a second loop of them. So each socket
 * has a client of its own. It has a deadline in every state: a server may accept it, and stay silent.
 */
export class ConnectionTry {
  readonly client: NodeRedis;
  /** Takes back the commands that were not written when it is over. */
  readonly #loss = newLoss();
  readonly #cut = new AbortController();
  #isOver = false;
  #cancelDeadline: () => void;

  constructor(
    make: MakeClient,
    connectTimeout: number,
    clock: Clock,
    private readonly listener: TryListener,
  ) {
    this.client = make(this.#cut.signal);
    const silent = (): void => this.end();
    this.#cancelDeadline = setDeadline(clock, silent, connectTimeout + GREETING_MS);
    const unlessOver = (react: () => void) => (): void => void (this.#isOver || react());
    const onConnect = unlessOver(() => {
      this.#cancelDeadline();
      this.#cancelDeadline = setDeadline(clock, silent, GREETING_MS);
      listener.onConnected();
    });
    const onMaster = unlessOver(() => {
      this.#cancelDeadline();
      listener.onReady();
    });
    const onReady = unlessOver(
      () => void (listener.onReplica ? this.#checkRole(onMaster, listener.onReplica) : onMaster()),
    );
    this.client.on('connect', onConnect).on('ready', onReady);
    this.client.on('error', (error: Error) => this.end(error)).on('end', () => this.end());
  }

  get loss(): AbortSignal {
    return this.#loss.signal;
  }

  start(): void {
    this.client.connect().catch((error: Error) => this.end(error));
  }

  /** Ends it at once, and rejects what has no answer. */
  end(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#loss.abort();
    this.#destroy();
    this.listener.onOver(error && errorOfConnection(error));
  }

  /** What does not say which role it has counts as a master. */
  async #checkRole(onMaster: () => void, onReplica: () => void): Promise<void> {
    const info = await sendBy(this.client, ['info', 'replication'], this.loss).catch(() => '');
    if (!/^role:slave/m.test(String(info))) return onMaster();
    onReplica();
    this.end(new Error('the server that the sentinels name is a replica'));
  }

  #destroy(): void {
    try {
      this.client.destroy();
    } catch {
      // node-redis 5 says so when it has ended already.
    }
    // `destroy` forgets a socket that still waits for its host, and that would live on once it is connected.
    this.#cut.abort();
  }
}
