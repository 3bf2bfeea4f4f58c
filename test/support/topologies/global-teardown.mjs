import process from 'node:process';

/** Stops what global-setup.mjs started. */
export default async function globalTeardown() {
  if (!globalThis.sharedRedis) return;
  // In watch mode the next run starts its own.
  delete process.env.REDIS_URL;
  await globalThis.sharedRedis.stop();
  globalThis.sharedRedis = undefined;
}
