import { LockStoreError } from '../../core/lock.errors.js';
import { printable } from '../../core/printable.js';
import { type Subject, keyOfSubject } from '../../core/store/subject.js';
import { adviceOn, isPassing, needsCluster, readableText } from './error-advice.js';
import { type ServerAddress, namedBy, readAddress } from '../client/server-address.js';

/** Whether a retry may help: after any failure of the connection, and in a passing state of the server. */
export const isRetryable = (error: unknown): boolean =>
  (error as Error).name !== 'ReplyError' || isPassing((error as Error).message);

/** There was no connection for a command, and the client did not queue it. */
export const isUnsent = (error: Error): boolean =>
  error.name === 'UnsentError' || /Stream isn't writeable/.test(error.message);

/** There was no connection, or it was lost before the answer came: the command may be sent again. */
export const isLost = (error: Error): boolean =>
  error.name === 'LostError' || isUnsent(error) || /Connection is closed|connection close/.test(error.message);

/** The script is unknown to the server: after a restart, a failover, or SCRIPT FLUSH. */
export const isNoScript = (error: Error): boolean => /\bNOSCRIPT\b/.test(error.message);

/** A replica was asked to write. Before Redis 7, the code is not the first word of a script's error. */
export const isReadOnly = (error: unknown): boolean => /\bREADONLY\b/.test((error as Error).message);

interface Redirect {
  readonly address: ServerAddress;
  /** For the next command only. */
  readonly isAsk: boolean;
}

/** Where the node of a cluster that was `asked` redirects a client; null for any other error. */
export function readRedirect(error: unknown, asked: ServerAddress): Redirect | null {
  const [, kind, to] = /^(MOVED|ASK) \d+ (\S+)$/.exec((error as Error | undefined)?.message ?? '') ?? [];
  if (to === undefined) return null;
  const { host, port } = readAddress(to);
  return { address: { host: namedBy(asked, host), port }, isAsk: kind === 'ASK' };
}

/** The same error with the address of its server, where there are several. */
export function ofServer(error: Error, address: string): Error {
  if (error.message.includes(address)) return error;
  const { name, cause } = error;
  return Object.assign(new Error(`${readableText(error)} (${address})`, { cause }), { name });
}

/** Facts about a failed command in addition to its error. */
interface FailedCommand {
  /** Why the last connection failed: the error of an unsent command does not contain it. */
  readonly connectionError?: Error | undefined;
  readonly wasSent?: boolean;
  /** The client is not one of a cluster. */
  readonly isSingle?: boolean;
}

/** Wraps the error of a command. */
export function storeError(subject: Subject, error: unknown, failed: FailedCommand = {}): LockStoreError {
  if (error instanceof LockStoreError) return error;
  const [cause, ...more] = reasonsOf(error as Error, failed.connectionError);
  const { wasSent = true, isSingle = false } = failed;
  const reason = [...new Set([cause, ...more].map(readableText))].join(': ');
  const task = typeof subject === 'string' ? `serve the lock "${subject}"` : subject.task;
  const text = `Redis could not ${task}: ${reason}. ${adviceOn(more[0] ?? cause, isSingle)}`;
  const retryable = isRetryable(cause) && !(isSingle && needsCluster(cause));
  return new LockStoreError(text, { key: keyOfSubject(subject), cause: withoutSecrets(cause), retryable, wasSent });
}

/** The same failure for the lock `key`: several calls share one command, and its error names the lock of one of them. */
export function renamedError(error: LockStoreError, key: string, wasSent = error.wasSent): LockStoreError {
  const { message, cause, retryable } = error;
  const text = message.replace(quoted(error.key ?? ''), () => quoted(key));
  return new LockStoreError(text, { key, cause, retryable, wasSent });
}

const quoted = (key: string): string => `"${printable(key)}"`;

/** The error that counts, and further ones that explain it. */
function reasonsOf(error: Error, connectionError: Error | undefined): [cause: Error, ...more: Error[]] {
  if (error.name === 'ReplyError') return [error];
  // A refused log-in will be refused again.
  if (connectionError && !isRetryable(connectionError)) return [connectionError];
  if (isLost(error)) return [connectionError ?? new Error('the connection was lost')];
  return connectionError ? [error, connectionError] : [error];
}

/**
 * The error of a log-in of ioredis contains user and password in the arguments of its command, and an application may log it.
 */
export function withoutSecrets(error: Error & { readonly command?: { readonly name?: string } }): Error {
  if (!/^(auth|hello)$/i.test(error.command?.name ?? '')) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}
