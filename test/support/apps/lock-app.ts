import { randomUUID } from 'node:crypto';
import { type DynamicModule, type INestApplicationContext, Logger, type ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import { Cluster, Redis } from 'ioredis';
import { type RedisLockModuleOptions, RedisLockModule, type RedisLockService } from '../../../lib/index.js';
import { MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { getLockServiceToken, LOCKER } from '../../../lib/redis-lock.tokens.js';
import { type StoreAddress, topology } from '../topologies/topology.js';

Logger.overrideLogger(false);
const ignore = (): void => undefined;

/** One instance of an app, with its own connections and client id, like a separate process. */
export interface LockApp {
  readonly app: INestApplicationContext;
  readonly locks: RedisLockService;
  readonly locker: Locker;
  close(): Promise<void>;
}

const open: { close(): Promise<unknown> }[] = [];

/** Adds this to what `closeAll` closes. */
export function closeLater<T extends { close(): Promise<unknown> }>(one: T): T {
  open.push(one);
  return one;
}

/** How long a closing app waits for locks that a test left held. */
const DRAIN_MS = 100;

/** Shared by all apps of a test file, like a Redis. */
export const memoryServer = new MemoryLockServer();

function moduleOf(
  { connection = topology.connection, ...options }: RedisLockModuleOptions,
  server: MemoryLockServer,
): DynamicModule {
  if (topology.isMemory) return RedisLockTestingModule.forRoot({ ...options, server });
  return RedisLockModule.forRoot({ ...options, connection });
}

async function initModule(
  metadata: ModuleMetadata,
  prepare: (builder: TestingModuleBuilder) => TestingModuleBuilder = (builder) => builder,
): Promise<TestingModule> {
  const builder = Test.createTestingModule(metadata).setLogger({ log: ignore, warn: ignore, error: ignore });
  return (await prepare(builder).compile()).init();
}

/** Starts a module exactly as the test defines it; `closeAll` closes it. */
export const startModule = async (...args: Parameters<typeof initModule>): Promise<TestingModule> =>
  closeLater(await initModule(...args));

/** Starts an instance, which `closeAll` closes. `server` has the locks when the topology is `memory`. */
export async function startApp(
  options: RedisLockModuleOptions = {},
  metadata: ModuleMetadata = {},
  server = memoryServer,
): Promise<LockApp> {
  const lockModule = moduleOf({ drainMs: DRAIN_MS, ...options }, server);
  const app = await initModule({ ...metadata, imports: [lockModule, ...(metadata.imports ?? [])] });
  const locks = app.get<RedisLockService>(getLockServiceToken(options.name));
  const started = { app, locks, locker: app.get<Locker>(LOCKER), close: () => app.close() };
  return closeLater(started);
}

/** The two seconds of ioredis would keep the process alive after the tests when the server is gone. */
export const SOON_CLOSED = { disconnectTimeout: 100 };

function openClient(address: StoreAddress): Redis {
  if (typeof address === 'string') return new Redis(address, SOON_CLOSED);
  if (!('cluster' in address)) return new Redis({ ...address, ...SOON_CLOSED });
  // A Cluster takes the same commands, and sends each to the node of its key; tests that need more start their own.
  return new Cluster([...address.cluster], { redisOptions: SOON_CLOSED }) as unknown as Redis;
}

/** A connection in addition to those under test, with all permissions; to the first store where there are several. */
export function openAdmin(address: StoreAddress | undefined = topology.admins[0]): Redis {
  if (address === undefined) throw new Error(`The topology "${topology.name}" has no Redis to look into.`);
  const admin = openClient(address);
  admin.on('error', () => undefined);
  closeLater({ close: async () => admin.disconnect() });
  return admin;
}

/** One connection for each store that has a separate copy. */
export const openAdmins = (): Redis[] => topology.admins.map((address) => openAdmin(address));

/** Closes what the test opened: its apps side by side, since each may wait for its locks, then the rest in reverse order. */
export async function closeAll(): Promise<void> {
  const all = open.splice(0).toReversed();
  const isApp = (one: object): boolean => 'locks' in one;
  await Promise.all(all.filter(isApp).map((app) => app.close()));
  for (const one of all) if (!isApp(one)) await one.close();
}

/** A key that no other test uses. */
export const freshKey = (name = 'key'): string => `${name}-${randomUUID()}`;
