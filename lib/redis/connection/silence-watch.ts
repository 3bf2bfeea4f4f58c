import { type Clock, setDeadline, wasHeldUp } from '../../core/clock.js';
import { AFTER_BLOCK_MS, ANSWER_TIME_GROWTH, MAX_SILENCE_MS, SILENCE_FACTOR } from '../timing.js';
import { type RedisClient } from '../client/cluster.js';

/** The state of one connection. */
interface AnswerRecord {
  /** When the last answer came. */
  answeredAt: number;
  /** The fastest of the latest answer times: slower answers may have waited behind a blocking command of another client. */
  usualMs: number;
  /** How often the connection was declared dead since its last answer. */
  deaths: number;
  /** Whether a verdict is pending: any answer until then shows that the connection is alive. */
  isSuspected: boolean;
}

/**
 * Distinguishes a dead connection from a slow one. A timed-out command alone proves nothing about its connection, which it shares
 * with commands that have more time; only a silence longer than the usual answer time does. That time is learned, and the
 * patience doubles each time that replacing the connection did not help, like TCP's retransmission timeout (RFC 6298,
 * 5.5).
 */
export class SilenceWatch {
  readonly #records = new WeakMap<RedisClient, AnswerRecord>();

  constructor(private readonly clock: Clock) {}

  /** A command that was sent at `sentAt` was answered. */
  onAnswer(connection: RedisClient, sentAt: number): void {
    const record = this.#recordOf(connection);
    const now = this.clock.now();
    record.answeredAt = now;
    record.usualMs = Math.min(now - sentAt, record.usualMs * ANSWER_TIME_GROWTH || Infinity);
    record.deaths = 0;
  }

  /** A new connection is not blamed for commands that the one before it left unanswered. */
  onReady(connection: RedisClient): void {
    const record = this.#recordOf(connection);
    record.answeredAt = this.clock.now();
    // It may take another route.
    record.usualMs = 0;
  }

  /** A command that was sent at `sentAt` has no answer after `timeoutMs`: calls back once the connection is certainly dead. */
  onTimeout(connection: RedisClient, sentAt: number, timeoutMs: number, onDead: () => void): void {
    const record = this.#recordOf(connection);
    if (record.isSuspected) return;
    const silentSince = Math.max(sentAt, record.answeredAt);
    const answerMs = SILENCE_FACTOR * record.usualMs;
    const usualMs = Math.max(timeoutMs, answerMs);
    const patienceMs = Math.max(timeoutMs, Math.min(usualMs * 2 ** record.deaths, MAX_SILENCE_MS));
    const decide = (): void => {
      record.isSuspected = false;
      if (record.answeredAt > silentSince) return;
      record.deaths += 1;
      onDead();
    };
    // While the event loop is blocked, a library may hold back a command.
    const leastMs = wasHeldUp(this.clock, sentAt + timeoutMs) ? Math.max(AFTER_BLOCK_MS, answerMs) : 0;
    const restMs = Math.max(silentSince + patienceMs - this.clock.now(), leastMs);
    if (restMs <= 0) return decide();
    record.isSuspected = true;
    setDeadline(this.clock, decide, restMs);
  }

  #recordOf(connection: RedisClient): AnswerRecord {
    let record = this.#records.get(connection);
    if (!record) {
      record = { answeredAt: -Infinity, usualMs: 0, deaths: 0, isSuspected: false };
      this.#records.set(connection, record);
    }
    return record;
  }
}
