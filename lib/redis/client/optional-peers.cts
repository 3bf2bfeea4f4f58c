// The client libraries are optional peers. This file is CommonJS in both builds, because only `require` loads a package
// synchronously on demand. Each name is a literal, so that bundlers and the mocks of test runners find it; inside of `try`,
// bundlers accept that it is missing.

/** The exports of ioredis; null when it is not installed. */
export function loadIoredis(): typeof import('ioredis') | null {
  try {
    return require('ioredis') as typeof import('ioredis');
  } catch (error) {
    return nullIfMissing(error as Error, 'ioredis');
  }
}

/** The exports of iovalkey, a fork of ioredis with the same classes. */
export function loadIovalkey(): typeof import('ioredis') | null {
  try {
    return require('iovalkey') as typeof import('ioredis');
  } catch (error) {
    return nullIfMissing(error as Error, 'iovalkey');
  }
}

/** The exports of node-redis. */
export function loadNodeRedis(): typeof import('redis') | null {
  try {
    return require('redis') as typeof import('redis');
  } catch (error) {
    return nullIfMissing(error as Error, 'redis');
  }
}

/** A package that is broken, or lacks one of its dependencies, must not count as missing. */
function nullIfMissing(error: Error & { readonly code?: unknown }, name: string): null {
  const [first = ''] = error.message.split('\n');
  if (error.code === 'MODULE_NOT_FOUND' && first.includes(name)) return null;
  throw error;
}
