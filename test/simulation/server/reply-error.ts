/** An error that Redis replies with. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}
