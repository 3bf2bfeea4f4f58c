import { type Redis } from 'ioredis';
import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { startQuorum } from '../../../scripts/topologies.mjs';
import { disconnect, loadScripts } from './own-redis.js';
import { type LockApp, closeLater, freshKey, openAdmin, startApp } from '../apps/lock-app.js';
import { type TcpProxy, startTcpProxy } from '../network/tcp-proxy.js';
import { eventually } from '../waiting/eventually.js';
import { hashOf } from './records.js';

/** An app with a separate proxy in front of each master. */
export interface NetApp extends LockApp {
  readonly proxies: readonly TcpProxy[];
  /** Lets only these masters be reached (numbers from 0). */
  reaches(...nodes: number[]): void;
}

/** Masters for this test alone. */
export interface QuorumNet {
  readonly servers: readonly StartedRedis[];
  /** Direct connections to each master, without faults. */
  readonly admins: readonly Redis[];
  /** Starts an app behind separate proxies. */
  app(options?: RedisLockModuleOptions): Promise<NetApp>;
}

/** Starts masters that know all scripts. */
export async function startNet(size: number): Promise<QuorumNet> {
  const quorum = await startQuorum(size);
  closeLater({ close: () => quorum.stop() });
  const admins = quorum.servers.map(({ url }) => openAdmin(url));
  await Promise.all(admins.map(loadScripts));
  return { servers: quorum.servers, admins, app: (options) => startNetApp(quorum.servers, options) };
}

async function startNetApp(servers: readonly StartedRedis[], options?: RedisLockModuleOptions): Promise<NetApp> {
  const proxies = await Promise.all(servers.map(async ({ port }) => closeLater(await startTcpProxy(port))));
  const app = await startApp({ connection: proxies.map(({ url }) => url), ...options });
  const reaches = (...nodes: number[]): void => {
    for (const [i, proxy] of proxies.entries()) {
      if (nodes.includes(i)) proxy.refuse(false);
      else disconnect(proxy);
    }
  };
  return { ...app, proxies, reaches };
}

interface Warm {
  readonly 1: [NetApp];
  readonly 2: [NetApp, NetApp];
  readonly 3: [NetApp, NetApp, NetApp];
}

/** Starts apps that are connected to all masters. */
export async function warmApps<Count extends keyof Warm>(net: QuorumNet, count: Count): Promise<Warm[Count]> {
  const apps: NetApp[] = [];
  for (let i = 0; i < count; i += 1) apps.push(await net.app());
  await Promise.all(apps.map((app) => warmUp(net.admins, app)));
  return apps as Warm[Count];
}

/** Waits until an app is connected to these masters. */
export async function warmUp(admins: readonly Redis[], { locks }: LockApp): Promise<void> {
  await eventually(() => {
    const key = freshKey();
    const reached = () => eventually(async () => !(await heldRow(admins, key)).includes('0'), { timeoutMs: 1_000 });
    return locks.withLock(key, () => reached().then(Boolean, () => false));
  });
}

/** The attempts that hold a lock on each master, in the order of the masters. */
export async function holdsOn(admins: readonly Redis[], key: string): Promise<string[][]> {
  const hashes = await Promise.all(admins.map((admin) => hashOf(admin, key).catch(() => ({}))));
  return hashes.map((hash) =>
    Object.keys(hash).flatMap((field) => (field.startsWith('hold:') ? [field.slice(5)] : [])),
  );
}

/** On which masters a lock is held, as a row of 0 and 1. */
export const heldRow = async (admins: readonly Redis[], key: string): Promise<string> =>
  (await holdsOn(admins, key)).map((holds) => (holds.length > 0 ? 1 : 0)).join('');

/** Leaves of the field `s` what a free lock has in it (ADR 21). */
const DROP = `
local s = redis.call('HGET', KEYS[1], 's')
s = s:sub(1, 1) == 'D' and s:sub(1, 15) .. ('\\0'):rep(28) .. s:sub(44, 74) or 'A' .. s:sub(2, 14)
redis.call('HDEL', KEYS[1], ARGV[1])
return redis.call('HSET', KEYS[1], 's', s)`;

/** Ends the only hold of a lock on one master, as the end of its lease does, but at once. */
export async function dropHold(admin: Redis, key: string): Promise<void> {
  const [[attempt]] = (await holdsOn([admin], key)) as [[string]];
  await admin.eval(DROP, 1, `lock:${key}`, attempt);
}

/** The last run of the job `Jobs.run` on each master, as `fire outcome`. */
export async function runsOn(admins: readonly Redis[], key: string): Promise<(string | undefined)[]> {
  const hashes = await Promise.all(admins.map((admin) => hashOf(admin, key)));
  return hashes.map((hash) => hash['run:Jobs.run']?.replace(/^(\d+) .* (\S+)$/, '$1 $2'));
}
