import { type Clock, setDeadline } from '../../core/clock.js';
import { type RedisClient } from './redis-client.js';

/** A connection is given this many times what its answers take; and at most so many milliseconds. */
const TIMES = 3;
const LONGEST_MS = 5_000;

/** How much slower than the fastest one before it an answer counts. */
const GROWTH = 1.1;

/** What is known of one connection. */
interface Health {
  /** When the last answer came. */
  answeredAt: number;
  /** How long the fastest of its latest answers took: others may have waited behind somebody's blocking command. */
  fastMs: number;
  /** How often it was taken for dead since it answered. */
  deaths: number;
  /** Whether it is on trial: an answer shows that it lives. */
  isSuspected: boolean;
}

/**
 * Tells a dead connection from a slow one. A command that is given up says nothing about its connection, which it shares with
 * commands that have more time: only silence does, which is longer than its answers take. What they take is learned, and the
 * patience doubles each time that the connection was replaced in vain, as TCP's retransmission timeout does (RFC 6298, 5.5).
 */
export class ConnectionHealth {
  readonly #known = new WeakMap<RedisClient, Health>();

  constructor(private readonly clock: Clock) {}

  /** An answer came to what was sent at `sentAt`. */
  onAnswer(connection: RedisClient, sentAt: number): void {
    const health = this.#of(connection);
    const now = this.clock.now();
    health.answeredAt = now;
    health.fastMs = Math.min(now - sentAt, health.fastMs * GROWTH || Infinity);
    health.deaths = 0;
  }

  /** A new connection is not to blame for what the one before it left unanswered. */
  onReady(connection: RedisClient): void {
    const health = this.#of(connection);
    health.answeredAt = this.clock.now();
    // Its way may be another one.
    health.fastMs = 0;
  }

  /**
   * What was sent at `sentAt` has no answer after `timeoutMs`: calls back if the connection is dead, as soon as that is
   * clear.
   */
  onTimeout(connection: RedisClient, sentAt: number, timeoutMs: number, onDead: () => void): void {
    const health = this.#of(connection);
    if (health.isSuspected) return;
    const silentSince = Math.max(sentAt, health.answeredAt);
    const usualMs = Math.max(timeoutMs, TIMES * health.fastMs);
    const patienceMs = Math.max(timeoutMs, Math.min(usualMs * 2 ** health.deaths, LONGEST_MS));
    const decide = (): void => {
      health.isSuspected = false;
      if (health.answeredAt > silentSince) return;
      health.deaths += 1;
      onDead();
    };
    const restMs = silentSince + patienceMs - this.clock.now();
    if (restMs <= 0) return decide();
    health.isSuspected = true;
    setDeadline(this.clock, decide, restMs);
  }

  #of(connection: RedisClient): Health {
    let health = this.#known.get(connection);
    if (!health) {
      health = { answeredAt: -Infinity, fastMs: 0, deaths: 0, isSuspected: false };
      this.#known.set(connection, health);
    }
    return health;
  }
}
