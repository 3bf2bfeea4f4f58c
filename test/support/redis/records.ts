import { type Redis } from 'ioredis';
import { eventually } from '../waiting/eventually.js';

/** The hash of a lock in Redis; of a packed one, the fields that it would have otherwise. */
export const hashOf = async (admin: Redis, key: string): Promise<Record<string, string>> =>
  unpacked(await admin.hgetall(`lock:${key}`));

/** The fields that a packed lock would have otherwise (lib/redis/scripts/parts/state.ts), written down once more. */
function unpacked(hash: Record<string, string>): Record<string, string> {
  const { s, by, ...others } = hash;
  if (s === undefined) return hash;
  const [token, deadline, lease, attempt] = [s.slice(1, 17), s.slice(17, 30), Number(s.slice(30, 40)), s.slice(40)];
  if (attempt === '') return { ...others, token };
  const hold = [deadline, lease, 'write', token, token.slice(0, -3), '-'].join(' ');
  return { ...others, token, fence: token, [`hold:${attempt}`]: hold, [`id:${attempt}`]: by! };
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
local packed = redis.call('HGET', KEYS[1], 's')
if packed and #packed == 17 then return redis.call('HSET', KEYS[1], 's', '1' .. ARGV[1]) end
if packed then
  local token, deadline, lease, attempt = packed:sub(2, 17), packed:sub(18, 30), packed:sub(31, 40), packed:sub(41)
  local hold = table.concat({ deadline, tonumber(lease), 'write', token, token:sub(1, 13), '-' }, ' ')
  redis.call('HSET', KEYS[1], 'v', '1', 'hold:' .. attempt, hold, 'id:' .. attempt, redis.call('HGET', KEYS[1], 'by'),
    'writes', '1', 'reads', '0', 'parked', '0', 'owner', attempt, 'writer', attempt, 'fence', token, 'due', deadline,
    'latest', deadline, 'seen', string.format('%.0f', deadline - lease))
  redis.call('HDEL', KEYS[1], 's', 'by')
end
redis.call('HSETNX', KEYS[1], 'released', ';')
return redis.call('HSET', KEYS[1], 'token', ARGV[1])`;

/** Sets the last token of a lock. */
export const setToken = (admin: Redis, key: string, token: string): Promise<unknown> =>
  admin.eval(SET_TOKEN, 1, `lock:${key}`, token);
