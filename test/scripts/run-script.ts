import { type Redis } from 'ioredis';
import { RedisKeys } from '../../lib/redis/codec/redis-keys.js';
import { ScriptCalls } from '../../lib/redis/codec/script-calls.js';
import { type Script } from '../../lib/redis/connection/command.js';
import { type LockScripts, createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';

/** The lines of scripts/clock.lua in the scripts. */
const CLOCK = `local reading = redis.call('TIME')
local micros = reading[1] * 1000000 + reading[2]`;

/** Added to times of expiry on the clock of a test: Redis, which has its own clock, must not reach them. */
export const FAR_MS = 4_398_046_511_104;

/** A clock that the test owns: each command carries its time as the last operand, so that no run sleeps and each can be repeated. */
const OPERAND_CLOCK = 'local micros = table.remove(ARGV) + 0';

/** Keys also expire by this clock, `FAR_MS` later: the test deletes them. */
const VIRTUAL_TIME = `local test_ms, server = math.floor(ARGV[#ARGV] / 1000), redis
local redis = { pcall = server.pcall }
function redis.call(command, ...)
if command ~= 'PEXPIRE' then return server.call(command, ...) end
local key, ms = ...
return server.call('PEXPIREAT', key, string.format('%.0f', ${FAR_MS} + test_ms + ms))
end
`;

/** A script with another clock. */
export function withClock(text: string, clock: string): string {
  if (!text.includes(CLOCK)) throw new Error('The script reads no clock');
  return text.replace(CLOCK, () => clock);
}

/** The scripts with the clock of a test. */
export const virtualScripts = (): LockScripts =>
  Object.fromEntries(
    Object.entries(createLockScripts()).map(([name, text]) => {
      return [name, name.endsWith('History') ? text : VIRTUAL_TIME + withClock(text, OPERAND_CLOCK)];
    }),
  ) as never;

export interface CallOptions {
  readonly keyPrefix: string;
  readonly keepMs: number;
  readonly countReceivers?: boolean;
  readonly scripts?: LockScripts;
}

/** Writes commands as the library does. */
export function callsOf({
  keyPrefix,
  keepMs,
  countReceivers = true,
  scripts = virtualScripts(),
}: CallOptions): ScriptCalls {
  const keys = new RedisKeys(keyPrefix);
  return new ScriptCalls(scripts, keys, { keepMs, channelPrefix: keys.channelPrefix, countReceivers });
}

/** Runs a script by its hash, by its text when the server does not know it. `micros`: for those with the clock of a test. */
export async function runScript(redis: Redis, { script, operands }: Script, micros?: number): Promise<unknown> {
  const all = [...operands, ...(micros === undefined ? [] : [micros])] as [number, ...(string | number)[]];
  try {
    return await redis.evalsha(script.sha1, ...all);
  } catch (error) {
    if (!String(error).includes('NOSCRIPT')) throw error;
    return redis.eval(script.text, ...all);
  }
}

/** Returns each part of a reply as text. */
export const textsOf = (reply: unknown): string[] =>
  typeof reply === 'string' ? reply.split(' ') : (reply as unknown[]).map(String);
