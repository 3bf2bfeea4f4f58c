// The client libraries are optional peers. This file is CommonJS in both builds, because only `require` loads a package at once
// and when it is needed. Each name is written out, so that bundlers and the mocks of test runners find it; inside of `try`,
// bundlers accept that it is missing.

/** The exports of ioredis, or of iovalkey, which is made from it; null when none of the two is installed. */
export function loadIoredis(): typeof import('ioredis') | null {
  try {
    return require('ioredis') as typeof import('ioredis');
  } catch (error) {
    passOverMissing(error);
  }
  try {
    return require('iovalkey') as typeof import('ioredis');
  } catch (error) {
    passOverMissing(error);
  }
  return null;
}

/** The exports of node-redis; null when it is not installed. */
export function loadNodeRedis(): typeof import('redis') | null {
  try {
    return require('redis') as typeof import('redis');
  } catch (error) {
    passOverMissing(error);
  }
  return null;
}

/** A package that is there and broken must not count as missing. */
function passOverMissing(error: unknown): void {
  if ((error as { readonly code?: unknown } | null)?.code !== 'MODULE_NOT_FOUND') throw error;
}
