import { type Redis } from 'ioredis';
import { createLockScripts } from '../../../lib/index.js';
import { type StartedRedis, startRedisServer } from '../../../scripts/redis.mjs';
import { eventually } from '../waiting/eventually.js';
import { closeLater, openAdmin, redisUrl } from '../apps/lock-app.js';
import { type TcpProxy, startTcpProxy } from '../network/tcp-proxy.js';

/** How long this machine may stand still, on top of any bound that is promised. */
export const FREEZE_MS = 4_000;

const scripts = createLockScripts();

/** A Redis of this test alone, with a connection to look at it. */
export async function ownRedis(args: string[] = []): Promise<StartedRedis & { readonly admin: Redis }> {
  const server = await startRedisServer({ args });
  closeLater({ close: () => server.stop() });
  return { ...server, admin: openAdmin(server.url) };
}

/** The same server again, with nothing in it. */
export async function startAgain(server: StartedRedis): Promise<void> {
  const again = await startRedisServer({ port: server.port, args: server.args });
  closeLater({ close: () => again.stop() });
}

/** A network in front of a Redis. */
export async function proxyTo(url = redisUrl()): Promise<TcpProxy> {
  return closeLater(await startTcpProxy(Number(new URL(url).port || 6379)));
}

/** Recognises one of the lock's commands, in the words that the proxy sees. */
export const isCommand =
  (name: keyof typeof scripts) =>
  (text: string): boolean =>
    text.startsWith(`evalsha ${scripts[name].sha1} `);

/** Has the server know all scripts, so that a test meets no NOSCRIPT. */
export async function loadScripts(admin: Redis): Promise<void> {
  for (const { text } of Object.values(scripts)) await admin.script('LOAD', text);
}

/** Makes the next connections and all present ones fail at once. */
export function disconnect(proxy: TcpProxy): void {
  proxy.refuse(true);
  proxy.cutAll();
}

/** What a promise is rejected with. */
export function rejection<E = Error>(promise: Promise<unknown>): Promise<E> {
  return promise.then(
    (value) => {
      throw new Error(`Expected a rejection, got ${String(value)}.`);
    },
    (error: unknown) => error as E,
  );
}

/** The hash of a lock, as it lies in Redis. */
export const hashOf = (admin: Redis, key: string): Promise<Record<string, string>> => admin.hgetall(`lock:${key}`);

/** How many wait in Redis, whether alive or not. */
export async function queued(admin: Redis, key: string): Promise<number> {
  return Object.keys(await hashOf(admin, key)).filter((field) => field.startsWith('queue:')).length;
}

/**
 * When the only hold of a lock ends, in milliseconds of a server's clock. Of the nodes of a quorum some are told of it last, or
 * never: the first that knows it counts.
 */
export async function deadlineOf(admins: readonly Redis[], key: string): Promise<number> {
  const holdOf = async () => {
    const hashes = await Promise.all(admins.map((admin) => hashOf(admin, key)));
    return hashes.flatMap((hash) => Object.entries(hash)).find(([field]) => field.startsWith('hold:'));
  };
  const message = `The lock "${key}" was not held`;
  const [, hold] = await eventually(holdOf, { timeoutMs: 2_000, message });
  return Number(hold.split(' ')[0]);
}

/** When a lock was granted, in milliseconds of the server's clock: tokens are its microseconds. */
export const grantedAt = ({ fencingToken }: { readonly fencingToken: number }): number =>
  Math.floor(fencingToken / 1_000);

/** The server's clock, in milliseconds. */
export async function serverTime(admin: Redis): Promise<number> {
  const [seconds, micros] = await admin.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

/** Cuts connections on the side of the server: those that subscribe, or all others but this one. */
export const killConnections = (admin: Redis, type: 'pubsub' | 'normal'): Promise<unknown> =>
  admin.call('CLIENT', 'KILL', 'TYPE', type);
