import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { type LockApp, closeLater, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type Answer, FakeRedis } from './fake-redis.js';

/** How long any call of these tests may take: all limits that they set are shorter, but the machine may stall. */
const SETTLED_MS = 10_000;

/** An app and the server that it talks to. */
export interface Scene extends LockApp {
  readonly redis: FakeRedis;
}

/** Starts both; `closeAll` closes them. */
export async function startScene(options: RedisLockModuleOptions = {}, answer?: Answer): Promise<Scene> {
  const redis = closeLater(await FakeRedis.start(answer));
  const app = await startApp({ connection: redis.url, ...options });
  return { ...app, redis };
}

/** Rejects if the call is still pending after a long time. */
export async function settled<T>(call: Promise<T>, limitMs = SETTLED_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`The call was pending after ${limitMs} ms`)), limitMs);
  });
  return Promise.race([call, limit]).finally(() => clearTimeout(timer));
}

/** Waits until the module has nothing left of any call. */
export async function untilNothingLeft({ locker }: Pick<LockApp, 'locker'>): Promise<void> {
  const left = () => Object.entries(locker.live).filter(([, count]) => count > 0);
  if (left().length === 0) return;
  await eventually(() => left().length === 0, { intervalMs: 1, message: 'Something was left of the call' });
}
