import { type Received } from './fake-redis.js';
import { type Reply } from './resp.js';

const MAX_LEASE_MS = 30 * 24 * 60 * 60 * 1_000;

const whole = (part: unknown, min: number, max = Number.MAX_SAFE_INTEGER): boolean =>
  /^\d+$/.test(String(part)) && Number(part) >= min && Number(part) <= max;

const isPlain = (part: Reply): boolean => typeof part === 'string' || typeof part === 'number';

/** For how long a reply grants or renews a lock, by what our scripts reply: written down once more. 0: it does not. */
export function leaseIn({ name, operands, keys }: Received, reply: Reply): number {
  // On the plain path, a script replies with one text.
  const parts = typeof reply === 'string' ? reply.split(' ') : reply;
  if (!Array.isArray(parts)) return 0;
  if (!parts.every(isPlain) || parts[1] !== operands['attempt']) return 0;
  const at = { acquire: 4, acquireMany: 3, renew: 3, adopt: 3 }[name];
  const outcome = { renew: 'renewed', adopt: 'adopted' }[name] ?? 'granted';
  if (at === undefined || parts[0] !== outcome) return 0;
  const isPlainReply = name === 'renew' ? parts.length === 2 : parts.length === 3 && /^\d{16}$/.test(String(parts[2]));
  if (isPlainReply && (name === 'acquire' || name === 'renew')) return Number(operands['leaseMs']);
  if (!whole(parts[at], 1, MAX_LEASE_MS)) return 0;
  if (name !== 'renew' && !whole(parts[2], 0)) return 0;
  const tokens = name === 'acquire' ? [parts[3]] : name === 'acquireMany' ? parts.slice(4) : [];
  if (!tokens.every((token) => whole(token, 1))) return 0;
  return name === 'acquireMany' && tokens.length !== keys.length ? 0 : Number(parts[at]);
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
