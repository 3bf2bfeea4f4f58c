import { type Redis } from 'ioredis';
import { type RedisClient } from './redis-client.js';
import { type LuaScript } from './scripts/lua.js';

/** A script to send, with its operands. */
export interface Evaluation {
  readonly script: LuaScript<any, any, any>;
  readonly operands: readonly (string | number)[];
  /** To the node of a cluster to which the slot is on its way: it serves only who asks for that. */
  readonly asking?: boolean;
}

/** Sends EVALSHA, and EVAL where the server does not know the script: after a restart, a failover, or SCRIPT FLUSH. */
export async function evaluate(client: RedisClient, { script, operands, asking }: Evaluation): Promise<unknown> {
  const [numberOfKeys, ...rest] = operands as [number, ...(string | number)[]];
  // For the next command only. A refusal shows there.
  const askFirst = () => asking && void (client as Redis).asking().catch(() => undefined);
  try {
    askFirst();
    return await client.evalsha(script.sha1, numberOfKeys, ...rest);
  } catch (error) {
    if (!(error as Error).message.includes('NOSCRIPT')) throw error;
    askFirst();
    return client.eval(script.text, numberOfKeys, ...rest);
  }
}
