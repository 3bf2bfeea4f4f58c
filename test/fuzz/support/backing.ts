import { type Received } from './fake-redis.js';
import { type Reply } from './resp.js';

const MAX_LEASE_MS = 30 * 24 * 60 * 60 * 1_000;

const whole = (part: unknown, min: number, max = Number.MAX_SAFE_INTEGER): boolean =>
  /^\d+$/.test(String(part)) && Number(part) >= min && Number(part) <= max;

const isPlain = (part: Reply): boolean => typeof part === 'string' || typeof part === 'number';

const OUTCOMES: Readonly<Record<string, string>> = {
  acquire: 'granted',
  acquireMany: 'granted',
  renew: 'renewed',
  adopt: 'adopted',
};

/** For how long a reply grants or renews a lock, by what our scripts reply: written down once more. 0: it does not. */
export function leaseIn({ name, operands, keys }: Received, reply: Reply): number {
  if (!Array.isArray(reply) || !reply.every(isPlain) || reply[1] !== operands['attempt']) return 0;
  if (reply[0] !== OUTCOMES[name] || !whole(reply[3], 1, MAX_LEASE_MS)) return 0;
  if (name !== 'renew' && !whole(reply[2], 0)) return 0;
  const tokens = reply[0] === 'granted' ? reply.slice(6) : [];
  if (!tokens.every((token) => whole(token, 1))) return 0;
  return reply[0] === 'granted' && tokens.length !== keys.length ? 0 : Number(reply[3]);
}

/** Until when the replies that a server sent, or the messages, let somebody hold a lock. */
export class Backing {
  until = 0;

  onReply(command: Received, reply: Reply): void {
    const leaseMs = leaseIn(command, reply);
    if (leaseMs > 0) this.until = Math.max(this.until, performance.now() + leaseMs);
  }

  /** The holder has given its lock away: what it was granted lets nobody else hold it. */
  onTransferred(): void {
    this.until = 0;
  }

  /** Throws if a caller believes that it holds the lock, and the server has not let it. */
  check(held: boolean): void {
    if (held && performance.now() > this.until)
      throw new Error('The lock is held, though the server let nobody hold it');
  }
}
