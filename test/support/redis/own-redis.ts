import { type Redis } from 'ioredis';
import { createLockScripts } from '../../../lib/index.js';
import { type StartedRedis, startRedisServer } from '../../../scripts/redis.mjs';
import { closeLater, openAdmin } from '../apps/lock-app.js';
import { type TcpProxy, startTcpProxy } from '../network/tcp-proxy.js';
import { redisUrl } from '../topologies/topology.js';

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

/** Cuts connections on the side of the server: those that subscribe, or all others but this one. */
export const killConnections = (admin: Redis, type: 'pubsub' | 'normal'): Promise<unknown> =>
  admin.call('CLIENT', 'KILL', 'TYPE', type);
