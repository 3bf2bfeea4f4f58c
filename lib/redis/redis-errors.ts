import { LockStoreError } from '../core/lock.errors.js';
import { type ServerAddress, readAddress } from './server-address.js';

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

/** The client subscribes, and so sends nothing else. */
export const isSubscriber = ({ message }: Error): boolean => message.startsWith('Connection in subscriber mode');

/** ioredis had no connection to send a command by, and did not keep it. */
export const isUnsent = (error: Error): boolean =>
  isSubscriber(error) || /Stream isn't writeable|Cluster isn't ready/.test(error.message);

/** The connection was lost before the answer came, or was not there: the command may be sent again. */
export const isLost = (error: Error): boolean =>
  error.name === 'MaxRetriesPerRequestError' ||
  (isUnsent(error) && !isSubscriber(error)) ||
  /Connection is closed|connection close/.test(error.message);

/** A server does not know a script: after a restart, a failover, or SCRIPT FLUSH. */
export const isNoScript = (error: Error): boolean => /\bNOSCRIPT\b/.test(error.message);

/** A replica was asked to write. Before Redis 7 the code is not the first word of a script's error. */
export const isReadOnly = (error: unknown): boolean => /\bREADONLY\b/.test((error as Error).message);

/** Where a node of a cluster sends a client, and whether only for once (ASK); null for any other error. */
export function readRedirect(error: unknown): { readonly address: ServerAddress; readonly isAsk: boolean } | null {
  const [, kind, to] = /^(MOVED|ASK) \d+ (\S+)$/.exec((error as Error | undefined)?.message ?? '') ?? [];
  return to === undefined ? null : { address: readAddress(to), isAsk: kind === 'ASK' };
}

/**
 * Wraps what ioredis threw. What it says of a command that could not be sent tells little: `connectionError` is why the
 * last connection failed.
 */
export function storeError(key: string, error: unknown, connectionError?: Error, wasSent = true): LockStoreError {
  if (error instanceof LockStoreError) return error;
  const failed = { key, wasSent };
  if (!connectionError || (error as Error).name === 'ReplyError') return wrap(failed, error as Error);
  // A log-in that is refused will be refused again.
  if (!isRetryable(connectionError)) return wrap(failed, connectionError);
  return wrap(failed, error as Error, connectionError.message);
}

/** A command that failed. */
interface Failed {
  readonly key: string;
  readonly wasSent: boolean;
}

function wrap({ key, wasSent }: Failed, error: Error, detail = error.message): LockStoreError {
  const retryable = isRetryable(error);
  const advice = retryable
    ? 'Is Redis reachable?'
    : 'Check the credentials, the rights of the user, and the key prefix.';
  const reason = [...new Set([error.message, detail])].map((text) => text.replace(/\.$/, '')).join(': ');
  const text = `Redis could not serve the lock "${key}": ${reason}. ${advice}`;
  return new LockStoreError(text, { key, cause: withoutSecrets(error), retryable, wasSent });
}

/** What ioredis throws: with the command, and, of a cluster, with what its last node said. */
type ClientError = Error & { readonly command?: { readonly name?: string }; readonly lastNodeError?: ClientError };

const isOfLogIn = ({ command, lastNodeError }: ClientError): boolean =>
  /^(auth|hello)$/i.test(command?.name ?? '') || (lastNodeError !== undefined && isOfLogIn(lastNodeError));

/** An error of a log-in has user and password in the arguments of its command, and may be logged as a whole. */
function withoutSecrets(error: ClientError): Error {
  if (!isOfLogIn(error)) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}

/** Why a connection failed, from the event of a client; a cluster's own text says only that all nodes did. */
export const connectionErrorOf = (error: ClientError): Error => withoutSecrets(error.lastNodeError ?? error);
