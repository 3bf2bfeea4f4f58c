import process from 'node:process';
import { provideRedis } from '../../../scripts/redis.mjs';

/** Starts the Redis of all test files; the workers find it in REDIS_URL. */
export default async function globalSetup() {
  if (process.env.REDIS_URL) return;
  globalThis.sharedRedis = await provideRedis();
  process.env.REDIS_URL = globalThis.sharedRedis.url;
}
