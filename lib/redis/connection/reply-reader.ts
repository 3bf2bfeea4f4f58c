/** The outcome of an operation of a batch that failed: sent alone, it reports its error itself. */
export const FAILED = 'failed';

/** What a script replies that has granted or prolonged a hold. */
const GRANTED = new Set<unknown>(['granted', 'renewed', 'adopted']);

/** What the second element of a reply has to be; undefined: anything. Any other reply belongs to another command. */
export type Echo = string | undefined;

/** Reads the reply of a script for one lock, as that of a batch of one. */
export function readLone(echo: Echo, reply: unknown): string[][] | undefined {
  const one = readReply(echo, reply);
  return one && [one];
}

/** Reads the reply for one lock; undefined if it belongs to another command. */
function readReply(echo: Echo, reply: unknown): string[] | undefined {
  const parts = partsOf(reply);
  return echo === undefined || parts?.[1] === echo ? parts : undefined;
}

/** Reads the replies of a batch. Undefined if they belong to another command. */
export function readReplies(echoes: readonly Echo[], reply: unknown): string[][] | undefined {
  if (!Array.isArray(reply) || reply.length !== echoes.length) return undefined;
  const replies = reply.map((one: unknown, i) => readReply(echoes[i], one));
  return replies.every((one) => one !== undefined) ? replies : undefined;
}

/** Whether a lease rests on the reply. */
export const isGrant = (reply: readonly string[]): boolean => GRANTED.has(reply[0]);

/** The parts of the reply for one lock; undefined if none of our scripts replies so. */
const partsOf = (reply: unknown): string[] | undefined =>
  Array.isArray(reply) && reply.every(isPlain) ? reply.map(String) : undefined;

/** No script of ours replies with a list in the reply for a lock. */
const isPlain = (part: unknown): boolean => typeof part === 'string' || typeof part === 'number';
