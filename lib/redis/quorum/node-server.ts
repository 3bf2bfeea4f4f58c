import { type Redis } from 'ioredis';
import { LockStoreError } from '../../core/lock.errors.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { runIdIn } from '../connection/server-id.js';

/** How long a node may take to tell of itself. */
const SERVER_TIMEOUT_MS = 1_000;

/** The server to which a connection leads. */
export interface NodeServer {
  /** Another one each time it starts. */
  readonly runId: string;
  /** Where its master is, as `host:port`; undefined: it is one itself. */
  readonly master: string | undefined;
}

/** Asks a node which server it leads to. @throws LockStoreError */
export async function readServer(store: RedisLockStore): Promise<NodeServer> {
  const info = (section: string) => askServer(store, 'INFO', (client) => client.info(section));
  const [server, replication] = await Promise.all([info('server'), info('replication')]);
  const runId = runIdIn(server);
  if (!runId) {
    const text = 'The server does not tell its run id (INFO server). A quorum needs servers that do.';
    throw new LockStoreError(text, { wasSent: false });
  }
  const field = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(replication)?.[1];
  const isReplica = field('role') === 'slave';
  const [host, port] = [field('master_host'), field('master_port')];
  return { runId, master: isReplica ? `${host}:${port}` : undefined };
}

/** The time of a server, in milliseconds. */
export async function readTime(store: RedisLockStore): Promise<number> {
  const [seconds, micros] = await askServer(store, 'TIME', (client) => client.time());
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

/** A lock was not asked for yet, whatever fails here. */
async function askServer<T>(store: RedisLockStore, name: string, send: (client: Redis) => Promise<T>): Promise<T> {
  const { commands } = store;
  const client = commands.liveClient() as Redis;
  try {
    return await commands.ask(client, () => send(client), { key: name, timeoutMs: SERVER_TIMEOUT_MS });
  } catch (error) {
    const { message, retryable } = error as LockStoreError;
    throw new LockStoreError(message, { cause: error, retryable, wasSent: false });
  }
}
