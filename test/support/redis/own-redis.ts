import { type Redis } from 'ioredis';
import { createLockScripts } from '../../../lib/index.js';
import { withHashes } from '../../../lib/redis/scripts/lock-scripts.js';
import { type StartedRedis, startRedisServer } from '../../../scripts/redis.mjs';
import { closeLater, openAdmin } from '../apps/lock-app.js';
import { type TcpProxy, startTcpProxy } from '../network/tcp-proxy.js';
import { redisUrl } from '../topologies/topology.js';
import { eventually } from '../waiting/eventually.js';

/** How long this machine may freeze, on top of any promised bound. */
export const FREEZE_MS = 4_000;

const scripts = withHashes(createLockScripts());

/** A master waits five seconds for further replicas otherwise. */
const SYNC_AT_ONCE = ['--repl-diskless-sync-delay', '0'];

/** Starts a Redis for this test alone, with a connection to inspect it. */
export async function ownRedis(args: string[] = []): Promise<StartedRedis & { readonly admin: Redis }> {
  const server = await startRedisServer({ args: args.includes('--sentinel') ? args : [...args, ...SYNC_AT_ONCE] });
  closeLater({ close: () => server.stop() });
  return { ...server, admin: openAdmin(server.url) };
}

/** Starts a master whose replicas are in step. */
export async function startReplicated(count = 1) {
  const master = await ownRedis();
  const follow = () => ownRedis(['--replicaof', '127.0.0.1', String(master.port)]);
  const replicas = await Promise.all(Array.from({ length: count }, follow));
  const isOnline = async () => (await master.admin.info('replication')).match(/state=online/g)?.length === count;
  await eventually(isOnline, { timeoutMs: 20_000 });
  return { master, replicas };
}

/** Restarts a stopped server, without its data. */
export async function startAgain(server: StartedRedis): Promise<void> {
  const again = await startRedisServer({ port: server.port, args: server.args });
  closeLater({ close: () => again.stop() });
}

/** Puts a proxy in front of a Redis. */
export async function proxyTo(url = redisUrl()): Promise<TcpProxy> {
  return closeLater(await startTcpProxy(Number(new URL(url).port || 6379)));
}

/** The operations of the script `operate`, as its terms begin. */
const KINDS = {
  acquire: 'a',
  acquireMany: 'a',
  release: 'r',
  renew: 'n',
  downgrade: 'n',
  adopt: 'd',
  writeBack: 'w',
  forceRelease: 'f',
  setPermits: 'p',
} as const;

/** Matches one of the lock's commands in the text that the proxy sees; an operation only if it is alone. */
export const isCommand = (name: keyof typeof scripts | keyof typeof KINDS): ((text: string) => boolean) => {
  if (!Object.hasOwn(KINDS, name)) return (text) => text.startsWith(`evalsha ${scripts[name as 'inspect'].sha1} `);
  const keys = name === 'acquireMany' ? '([2-9]|1\\d)' : '1';
  const kind = KINDS[name as keyof typeof KINDS];
  const pattern = new RegExp(`^evalsha ${scripts.operate.sha1} ${keys} [^\\n]* 1 [^ \\n]+( \\d+)?\\n ${kind} `);
  return (text) => pattern.test(text);
};

/** Loads all scripts, so that a test sees no NOSCRIPT. */
export async function loadScripts(admin: Redis): Promise<void> {
  for (const { text } of Object.values(scripts)) await admin.script('LOAD', text);
}

/** Resets all connections, and makes new ones fail at once. */
export function disconnect(proxy: TcpProxy): void {
  proxy.refuse(true);
  proxy.cutAll();
}

/** Kills connections on the server: the subscribers, or all others except this one. */
export const killConnections = (admin: Redis, type: 'pubsub' | 'normal'): Promise<unknown> =>
  admin.call('CLIENT', 'KILL', 'TYPE', type);
