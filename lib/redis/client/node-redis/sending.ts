import { setMaxListeners } from 'node:events';
import { lostError, unsentError } from '../connection-errors.js';
import { type NodeRedis } from './node-redis-types.js';

/** Texts and numbers; a map of RESP3 is a list, as in RESP2. The key is that of node-redis for maps. */
const TYPES = { 37: Array };

/** Ends the commands that a connection has not written when it is lost; each of them listens to it. */
export function newLoss(): AbortController {
  const loss = new AbortController();
  setMaxListeners(0, loss.signal);
  return loss;
}

/**
 * Sends a command, whatever the application chose for its own: replies are texts and numbers, no matter how it maps types. The
 * command waits in the queue of the client until the end of the turn, and longer where the socket takes no more. Were the
 * connection lost meanwhile, the client would send it by the next one. Therefore `loss` takes it back.
 */
export async function sendBy(client: NodeRedis, args: readonly string[], loss: AbortSignal): Promise<unknown> {
  try {
    return await client.sendCommand(args, { typeMapping: TYPES, timeout: undefined, asap: false, abortSignal: loss });
  } catch (error) {
    throw errorOfCommand(error as Error);
  }
}

/** These say that the command is still unsent, and will never be sent. */
const UNSENT = new Set(['The command was aborted', 'The client is closed', 'The client is offline']);

/** The error of a command in the words of the port. All that is no reply comes from the end of a connection. */
export function errorOfCommand(error: Error): Error {
  if (isReply(error)) return asReply(error);
  if (error.message === 'The queue is full') return error;
  return UNSENT.has(error.message) ? unsentError() : lostError(error);
}

/** The error of a connection in the words of the port, which are those of Node; undefined: it ended without one. */
export function errorOfConnection(error: Error): Error | undefined {
  if (error.message === 'Socket closed unexpectedly') return undefined;
  if (error.message === 'Connection timeout') return new Error('connect ETIMEDOUT', { cause: error });
  return isReply(error) ? asReply(error) : error;
}

/** By class, whichever copy of node-redis made it; and by form, because bundlers rename classes. */
function isReply(error: Error): boolean {
  for (let one: object | null = error; one !== null; one = Object.getPrototypeOf(one) as object | null) {
    if (one.constructor?.name === 'ErrorReply') return true;
  }
  return !('code' in error) && /^[A-Z][A-Z0-9]+ /.test(error.message);
}

const asReply = (error: Error): Error => Object.assign(error, { name: 'ReplyError' });
