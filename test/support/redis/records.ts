import { type Redis } from 'ioredis';
import { eventually } from '../waiting/eventually.js';

/** The hash of a lock in Redis. */
export const hashOf = (admin: Redis, key: string): Promise<Record<string, string>> => admin.hgetall(`lock:${key}`);

/** How many waiters are queued in Redis, alive or dead. */
export async function queued(admin: Redis, key: string): Promise<number> {
  return Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('queue:')).length;
}

/**
 * When the only hold of a lock ends, in milliseconds of the server's clock. Some nodes of a quorum get the hold late, or
 * never: the first one that has it counts.
 */
export async function deadlineOf(admins: readonly Redis[], key: string): Promise<number> {
  const holdOf = async () => {
    const hashes = await Promise.all(admins.map((admin) => hashOf(admin, key)));
    return hashes.flatMap((hash) => Object.entries(hash)).find(([field]) => field.startsWith('hold:'));
  };
  const message = `The lock "${key}" was not held`;
  const [, hold] = await eventually(holdOf, { timeoutMs: 2_000, message });
  return Number(hold.split(' ')[0]);
}

/** When a lock was granted, in milliseconds of the server's clock: tokens are its microseconds. */
export const grantedAt = ({ fencingToken }: { readonly fencingToken: number }): number =>
  Math.floor(fencingToken / 1_000);

/** The server's clock, in milliseconds. */
export async function serverTime(admin: Redis): Promise<number> {
  const [seconds, micros] = await admin.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}
