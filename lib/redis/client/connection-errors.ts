// How an adapter tells the store, in the same words for every library, that a command had no connection.

/** There was no connection to send a command by, and nothing of it will be sent. */
export const unsentError = (): Error => named('UnsentError', 'there was no connection to send it by');

/** The connection was lost before the answer came. */
export const lostError = (cause?: unknown): Error => named('LostError', 'the connection was lost', cause);

const named = (name: string, message: string, cause?: unknown): Error =>
  Object.assign(new Error(message, { cause }), { name });
