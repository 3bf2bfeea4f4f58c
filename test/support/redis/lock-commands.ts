import { type AcquireRequest } from '../../../lib/core/store/lock-store.js';
import { type LockScripts, createLockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { RedisKeys } from '../../../lib/redis/codec/redis-keys.js';
import { type AcquireTimes, type Operation, ScriptCalls } from '../../../lib/redis/codec/script-calls.js';

/** The commands of a client with default options, of which a test sends some as another, or an earlier, client would. */
export const lockCalls = new ScriptCalls(createLockScripts(), new RedisKeys('lock:'), {
  keepMs: 600_000,
  channelPrefix: 'lock:wake:',
  countReceivers: true,
});

/** Never too late. */
const IN_TIME: AcquireTimes = { sentMicros: 1, untilMicros: Number.MAX_SAFE_INTEGER };

/** A writer that does not wait. */
export const plainWriter = (key: string, attempt: string): AcquireRequest => ({
  keys: [key],
  attempt,
  owner: undefined,
  mode: 'write',
  leaseMs: 30_000,
  waiterLeaseMs: 0,
  fair: true,
  maxWaiters: 0,
  permits: 0,
  take: 1,
  holder: 'x:1',
  claim: undefined,
});

/** EVAL and the operands behind it. */
export function evalOf(operation: Operation, times = IN_TIME): [text: string, keys: number, ...(string | number)[]] {
  const { script, operands } = lockCalls.alone(operation, times);
  return [script.text, ...(operands as [number, ...(string | number)[]])];
}

/** What scripts/clock.lua makes of the server's clock, in microseconds. */
const SERVER_CLOCK = 'reading[1] * 1000000 + reading[2]';

/** The scripts with another clock: a Lua expression, which may contain that of the server's clock. */
export function scriptsOnClock(expression: (serverClock: string) => string): LockScripts {
  const { readHistory, ...timed } = createLockScripts();
  const entries = Object.entries(timed).map(([name, text]) => {
    if (!text.includes(SERVER_CLOCK)) throw new Error(`The script ${name} reads the time in another way`);
    return [name, text.replace(SERVER_CLOCK, () => expression(SERVER_CLOCK))];
  });
  return { readHistory, ...(Object.fromEntries(entries) as Omit<LockScripts, 'readHistory'>) };
}
