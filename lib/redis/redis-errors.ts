import { LockStoreError } from '../core/lock.errors.js';

/**
 * States of a server that pass: asking again within the deadline may help. Looked for anywhere in the text, because a
 * script's error begins with `ERR Error running script` before Redis 7.
 */
const PASSING =
  /\b(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|OOM|NOREPLICAS|MISCONF|NOSCRIPT|UNBLOCKED|MOVED|ASK)\b|max number of clients/;

/** Whether asking again may help: any failure of the connection, and the passing states above; no other refusal. */
export function isRetryable(error: unknown): boolean {
  const { name, message } = error as Error;
  if (PASSING.test(message)) return true;
  return name !== 'ReplyError';
}

/** A replica was asked to write. Before Redis 7 the code is not the first word of a script's error. */
export const isReadOnly = (error: unknown): boolean => /\bREADONLY\b/.test((error as Error).message);

/** Wraps what ioredis threw. */
export function storeError(key: string, error: unknown): LockStoreError {
  if (error instanceof LockStoreError) return error;
  const retryable = isRetryable(error);
  const advice = retryable
    ? 'Is Redis reachable?'
    : 'Check the credentials, the rights of the user, and the key prefix.';
  const reason = (error as Error).message.replace(/\.$/, '');
  const text = `Redis could not serve the lock "${key}": ${reason}. ${advice}`;
  return new LockStoreError(text, { key, cause: error, retryable });
}
