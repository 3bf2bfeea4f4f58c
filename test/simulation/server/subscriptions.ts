import { type Socket } from '../network/socket.js';
import { type Rng } from '../world/rng.js';
import { type World } from '../world/world.js';

/** What happens to messages on their way; probabilities, and milliseconds. */
export interface MessageFaults {
  lost: number;
  late: number;
  lateMaxMs: number;
}

interface Publisher {
  readonly world: World;
  readonly rng: Rng;
  readonly name: string;
}

/** Who listens to which channel of a server. */
export class Subscriptions {
  faults: MessageFaults = { lost: 0, late: 0, lateMaxMs: 0 };
  readonly #listeners = new Map<string, Set<Socket>>();
  #counts: string | null = null;

  constructor(private readonly server: Publisher) {}

  add(socket: Socket, channels: readonly string[]): number {
    this.#counts = null;
    for (const channel of channels) {
      const listeners = this.#listeners.get(channel) ?? new Set();
      this.#listeners.set(channel, listeners.add(socket));
    }
    return channels.length;
  }

  drop(socket: Socket): void {
    this.#counts = null;
    for (const [channel, listeners] of this.#listeners) {
      listeners.delete(socket);
      if (listeners.size === 0) this.#listeners.delete(channel);
    }
  }

  /** The channels, each with the number of those that listen, one per line. */
  get counts(): string {
    return (this.#counts ??= [...this.#listeners].map(([channel, { size }]) => `${channel}\n${size}\n`).join(''));
  }

  /** Whether anybody listens. */
  has(channel: string): boolean {
    return this.#listeners.has(channel);
  }

  /** A message leaves before the reply of the command that published it. */
  publish(channel: string, message: string): void {
    const { world, rng, name } = this.server;
    const listeners = this.#listeners.get(channel) ?? new Set();
    for (const socket of listeners) {
      const { lost, late, lateMaxMs } = this.faults;
      // Pub/sub itself loses messages: when the buffer of a client is full, or while it connects again.
      const isLost = rng.chance(lost);
      world.log(() => `${name} tells ${socket.process.name} "${message}"${isLost ? ', which is lost' : ''}`);
      const extraMs = rng.chance(late) ? rng.float(0, lateMaxMs) : 0;
      if (!isLost) socket.reply(() => socket.client.onMessage(channel, message), extraMs);
    }
  }
}
