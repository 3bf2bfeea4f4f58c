import { randomUUID } from 'node:crypto';
import { type INestApplicationContext, Logger, type ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import { type RedisLockModuleOptions, RedisLockModule, RedisLockService } from '../../lib/index.js';
import { type Locker } from '../../lib/core/locker.js';
import { LOCKER } from '../../lib/redis-lock.tokens.js';

Logger.overrideLogger(false);
const ignore = (): void => undefined;

/** One instance of an app: its own connections, its own client id, as another process would have. */
export interface LockApp {
  readonly app: INestApplicationContext;
  readonly locks: RedisLockService;
  readonly locker: Locker;
  close(): Promise<void>;
}

const open: { close(): Promise<unknown> }[] = [];

/** Has `closeAll` close this too. */
export function closeLater<T extends { close(): Promise<unknown> }>(one: T): T {
  open.push(one);
  return one;
}

/** Starts an instance; what a test opened is closed by `closeAll`. */
export async function startApp(options: RedisLockModuleOptions = {}, metadata: ModuleMetadata = {}): Promise<LockApp> {
  const connection = options.connection ?? redisUrl();
  const lockModule = RedisLockModule.forRoot({ drainMs: 500, ...options, connection });
  const module = await Test.createTestingModule({ ...metadata, imports: [lockModule, ...(metadata.imports ?? [])] })
    .setLogger({ log: ignore, warn: ignore, error: ignore })
    .compile();
  const app = await module.init();
  const started = { app, locks: app.get(RedisLockService), locker: app.get<Locker>(LOCKER), close: () => app.close() };
  return closeLater(started);
}

/** The Redis that the test run started. */
export function redisUrl(): string {
  const url = process.env['REDIS_URL'];
  if (!url) throw new Error('REDIS_URL is not set: run the tests with `npm run test:jest`.');
  return url;
}

/** Two seconds, as ioredis has it, would keep the process alive after the tests when the server is gone. */
export const SOON_CLOSED = { disconnectTimeout: 100 };

/** A connection beside those under test. */
export function openAdmin(url = redisUrl()): Redis {
  const admin = new Redis(url, SOON_CLOSED);
  admin.on('error', () => undefined);
  closeLater({ close: async () => admin.disconnect() });
  return admin;
}

/** Closes what the test opened, in reverse order. */
export async function closeAll(): Promise<void> {
  for (const one of open.splice(0).toReversed()) await one.close();
}

/** A key that no other test uses. */
export const freshKey = (name = 'key'): string => `${name}-${randomUUID()}`;

/** A promise with its resolver, to hold a lock until the test says so. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
