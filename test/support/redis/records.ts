import { type Redis } from 'ioredis';
import { createLockScripts } from '../../../lib/index.js';
import { eventually } from '../waiting/eventually.js';

/**
 * What a lock in Redis has, by names: `token`, `hold:<attempt>` (`deadline span mode token since owner`), `queue:<place>`,
 * `id:<attempt>`, and `run:<job>` (`fire attempt started ended outcome`).
 */
export async function hashOf(admin: Redis, key: string): Promise<Record<string, string>> {
  const reply = (await admin.eval(createLockScripts().inspect, 1, `lock:${key}`)) as (string | number)[];
  const fields: Record<string, string> = reply[1] ? { token: String(reply[1]) } : {};
  for (let at = 3; at < reply.length; at += 12) {
    const [kind, attempt, deadline, span, token, mode, take, permits, since, owner, place, text] = reply
      .slice(at, at + 12)
      .map(String);
    if (kind === 'job') {
      const [job, ...run] = reply.slice(at + 1, at + 7);
      if (run[4] !== 'void') fields[`run:${job}`] = run.join(' ');
      continue;
    }
    const name = (mode === 'w' ? 'write' : 'read') + (take === '1' ? '' : take);
    fields[`id:${attempt}`] = text!;
    if (kind === 'hold') fields[`hold:${attempt}`] = [deadline, span, name, token, since, owner].join(' ');
    else fields[`queue:${place}`] = [deadline, span, name, permits, since, owner, attempt].join(' ');
  }
  return fields;
}

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

/** As after a write-back, or a clock that was ahead: the last token is another one, and a hold keeps its own. */
const SET_TOKEN = `
local s = redis.call('HGET', KEYS[1], 's') or 'A' .. struct.pack('>I7I6', 0, 0)
return redis.call('HSET', KEYS[1], 's', s:sub(1, 1) .. struct.pack('>I7', ARGV[1]) .. s:sub(9))`;

/** Sets the last token of a lock. */
export const setToken = (admin: Redis, key: string, token: string): Promise<unknown> =>
  admin.eval(SET_TOKEN, 1, `lock:${key}`, token);
